#pragma once
// View: what kernels see of a tensor. It owns nothing; the last dimension is contiguous.

#include <array>
#include <cstddef>
#include <span>
#include <type_traits>

#include "lockstep/core/assertion.hpp"

namespace lockstep::tensor {

/// A row-major array of `Rank` dimensions whose rows may lie further apart than they are long.
template <class T, std::size_t Rank>
class View {
public:
    using value_type = std::remove_const_t<T>;
    using Extents    = std::array<std::size_t, Rank>;

    View() = default;

    /// Contiguous.
    View(T* data, Extents extents) : data_(data), extents_(extents) {
        std::size_t stride = 1;
        for (std::size_t d = Rank; d-- > 0;) {
            strides_[d] = stride;
            stride *= extents_[d];
        }
    }

    /// With strides in elements; the last one must be 1.
    View(T* data, Extents extents, Extents strides) : data_(data), extents_(extents), strides_(strides) {
        if constexpr (Rank > 0) require(strides[Rank - 1] == 1, "View: the last stride must be 1, found ", strides[Rank - 1]);
    }

    /// Read-only from writable.
    operator View<T const, Rank>() const requires(!std::is_const_v<T>) { return {data_, extents_, strides_}; }

    T*          data() const noexcept { return data_; }
    std::size_t extent(std::size_t dimension) const noexcept { return extents_[dimension]; }
    std::size_t stride(std::size_t dimension) const noexcept { return strides_[dimension]; }
    Extents     extents() const noexcept { return extents_; }
    Extents     strides() const noexcept { return strides_; }
    bool        empty() const noexcept { return data_ == nullptr; }

    std::size_t size() const noexcept {
        std::size_t count = 1;
        for (std::size_t e : extents_) count *= e;
        return count;
    }

    bool contiguous() const noexcept {
        std::size_t stride = 1;
        for (std::size_t d = Rank; d-- > 0;) {
            if (extents_[d] != 1 && strides_[d] != stride) return false;
            stride *= extents_[d];
        }
        return true;
    }

    template <class... Index>
        requires(sizeof...(Index) == Rank)
    T& operator()(Index... index) const noexcept(!asserts(Assertions::normal)) {
        if constexpr (asserts(Assertions::normal)) check({static_cast<std::size_t>(index)...});
        std::size_t offset    = 0;
        std::size_t dimension = 0;
        ((offset += static_cast<std::size_t>(index) * strides_[dimension++]), ...);
        return data_[offset];
    }

    /// Row `i` of a matrix.
    std::span<T> row(std::size_t i) const noexcept(!asserts(Assertions::normal)) requires(Rank == 2) {
        require<Assertions::normal>(i < extents_[0], "View::row: expected a row below ", extents_[0], ", found ", i);
        return {data_ + i * strides_[0], extents_[1]};
    }

    /// Rows begin..end of a matrix.
    View rows(std::size_t begin, std::size_t end) const requires(Rank == 2) {
        require(begin <= end && end <= extents_[0], "View::rows: expected rows within ", extents_[0], ", found ", begin, " to ", end);
        return {data_ + begin * strides_[0], {end - begin, extents_[1]}, strides_};
    }

    /// Columns begin..end of a matrix.
    View columns(std::size_t begin, std::size_t end) const requires(Rank == 2) {
        require(begin <= end && end <= extents_[1], "View::columns: expected columns within ", extents_[1], ", found ", begin, " to ", end);
        return {data_ + begin, {extents_[0], end - begin}, strides_};
    }

    /// All elements in order. Must be contiguous.
    std::span<T> flat() const {
        require(contiguous(), "View::flat: the view must be contiguous");
        return {data_, size()};
    }

private:
    void check(Extents const& index) const {
        for (std::size_t d = 0; d < Rank; ++d)
            require<Assertions::normal>(index[d] < extents_[d], "View: expected index ", d, " below ", extents_[d], ", found ", index[d]);
    }

    T*      data_ = nullptr;
    Extents extents_{};
    Extents strides_{};
};

}  // namespace lockstep::tensor
