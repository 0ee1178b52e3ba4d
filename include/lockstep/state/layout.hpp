#pragma once
// How the elements of a matrix [rows, columns] lie inside its range of a flat buffer.

#include <cstddef>

namespace lockstep::state {

/// How the elements of a tile follow each other. The paired orders are what a tile unit takes as the right operand of a product.
enum class TileOrder {
    rows,
    columns,
    column_pairs,  // in blocks of 16 rows: two neighbours of a row, then the next row
    row_pairs,     // in blocks of 16 columns: two neighbours of a column, then the next column
};

/// A permutation with padding: the matrix is cut into panels of rows, a panel into tiles of columns. Panels follow each other,
/// tiles of a panel follow each other, each tile is contiguous. The default is the identity: one row, as wide as the matrix.
/// Elementwise code never looks at it. Padding is zero and stays zero.
struct Layout {
    std::size_t panel_rows     = 1;
    std::size_t tile_columns   = 0;  // 0: as wide as the matrix
    TileOrder   order          = TileOrder::rows;
    bool        paired_weights = false;  // compute weights are two copies: column_pairs for forward, row_pairs for input gradients

    constexpr bool operator==(Layout const&) const = default;
};

/// A layout applied to the sizes of one matrix: where element (row, column) lies.
class MatrixMap {
public:
    constexpr MatrixMap() = default;
    constexpr MatrixMap(std::size_t rows, std::size_t columns, Layout layout = {})
        : rows_(rows),
          columns_(columns),
          panel_rows_(layout.panel_rows),
          tile_columns_(layout.tile_columns != 0 ? layout.tile_columns : columns),
          tiles_(tile_columns_ != 0 ? (columns + tile_columns_ - 1) / tile_columns_ : 0),
          order_(layout.order) {}

    constexpr std::size_t rows() const noexcept { return rows_; }
    constexpr std::size_t columns() const noexcept { return columns_; }
    constexpr std::size_t panel_rows() const noexcept { return panel_rows_; }
    constexpr std::size_t tile_columns() const noexcept { return tile_columns_; }

    /// Elements of one panel, padding included: shards are whole granules.
    constexpr std::size_t granule() const noexcept { return panel_rows_ * tiles_ * tile_columns_; }

    /// Elements in all, padding included.
    constexpr std::size_t size() const noexcept { return (rows_ + panel_rows_ - 1) / panel_rows_ * granule(); }

    /// True where a row is contiguous and rows follow each other without gaps.
    constexpr bool row_major() const noexcept {
        return panel_rows_ == 1 && (order_ == TileOrder::rows || (order_ == TileOrder::columns && tiles_ <= 1)) &&
               tiles_ * tile_columns_ == columns_;
    }

    constexpr TileOrder order() const noexcept { return order_; }

    /// The same tiles in the same places, with another order inside. Pairs need tiles of even sides, and 16 rows or columns to a block.
    constexpr MatrixMap reordered(TileOrder order) const noexcept {
        MatrixMap result = *this;
        result.order_    = order;
        return result;
    }

    /// So many neighbours of a row, from a multiple of this number on, have a constant distance.
    constexpr std::size_t run() const noexcept {
        return order_ == TileOrder::column_pairs ? 2 : order_ == TileOrder::row_pairs ? block : tile_columns_;
    }

    /// The sum of what row and column add: (row, column) lies (row, 0) + (0, column) elements from the start.
    constexpr std::size_t operator()(std::size_t row, std::size_t column) const noexcept {
        std::size_t const panel = row / panel_rows_;
        std::size_t const tile  = column / tile_columns_;
        std::size_t const r     = row % panel_rows_;
        std::size_t const c     = column % tile_columns_;
        return (panel * tiles_ + tile) * panel_rows_ * tile_columns_ + inside(r, c);
    }

private:
    static constexpr std::size_t block = 16;  // rows or columns of a paired order

    constexpr std::size_t inside(std::size_t r, std::size_t c) const noexcept {
        switch (order_) {
            case TileOrder::columns:
                return c * panel_rows_ + r;
            case TileOrder::column_pairs:
                return r / block * block * tile_columns_ + c / 2 * 2 * block + r % block * 2 + c % 2;
            case TileOrder::row_pairs:
                return c / block * block * panel_rows_ + r / 2 * 2 * block + c % block * 2 + r % 2;
            default:
                return r * tile_columns_ + c;
        }
    }

    std::size_t rows_ = 0, columns_ = 0, panel_rows_ = 1, tile_columns_ = 0, tiles_ = 0;
    TileOrder   order_ = TileOrder::rows;
};

/// A matrix of a flat buffer: its elements and where they lie.
template <class T>
struct Matrix {
    T*        data = nullptr;
    MatrixMap map;

    T& operator()(std::size_t row, std::size_t column) const noexcept { return data[map(row, column)]; }
       operator Matrix<T const>() const noexcept { return {data, map}; }

    std::size_t rows() const noexcept { return map.rows(); }
    std::size_t columns() const noexcept { return map.columns(); }
};

}  // namespace lockstep::state
