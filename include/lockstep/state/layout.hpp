#pragma once
// How the elements of a matrix [rows, columns] lie inside its range of a flat buffer.

#include <cstddef>

namespace lockstep::state {

/// A permutation with padding: the matrix is cut into panels of rows, a panel into tiles of columns. Panels follow each other,
/// tiles of a panel follow each other, each tile is contiguous. The default is the identity: one row, as wide as the matrix.
/// Elementwise code never looks at it. Padding is zero and stays zero.
struct Layout {
    std::size_t panel_rows       = 1;
    std::size_t tile_columns     = 0;  // 0: as wide as the matrix
    bool        transposed_tiles = false;

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
          transposed_(layout.transposed_tiles) {}

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
        return panel_rows_ == 1 && (tiles_ <= 1 || !transposed_) && tiles_ * tile_columns_ == columns_;
    }

    constexpr std::size_t operator()(std::size_t row, std::size_t column) const noexcept {
        std::size_t const panel  = row / panel_rows_;
        std::size_t const tile   = column / tile_columns_;
        std::size_t const r      = row % panel_rows_;
        std::size_t const c      = column % tile_columns_;
        std::size_t const inside = transposed_ ? c * panel_rows_ + r : r * tile_columns_ + c;
        return (panel * tiles_ + tile) * panel_rows_ * tile_columns_ + inside;
    }

private:
    std::size_t rows_ = 0, columns_ = 0, panel_rows_ = 1, tile_columns_ = 0, tiles_ = 0;
    bool        transposed_ = false;
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
