#pragma once
// Checks of shapes, with sentences that name what was expected and what was found.

#include <concepts>
#include <cstddef>
#include <type_traits>

#include "lockstep/core/assertion.hpp"
#include "lockstep/tensor/view.hpp"

namespace lockstep::kernel {

namespace detail {

/// All element types are T, const or not.
template <class T, class... Ts>
concept each_is = (std::same_as<std::remove_const_t<Ts>, T> && ...);

}  // namespace detail

/// "gelu_forward: rows of y must be 4, found 3"
inline void require_extent(char const* kernel, char const* what, std::size_t found, std::size_t expected) {
    require(found == expected, kernel, ": ", what, " must be ", expected, ", found ", found);
}

template <class T>
void require_shape(char const* kernel, char const* what, tensor::View<T, 1> view, std::size_t elements) {
    require(view.extent(0) == elements, kernel, ": ", what, " must have ", elements, " elements, found ", view.extent(0));
}

template <class T>
void require_shape(char const* kernel, char const* what, tensor::View<T, 2> view, std::size_t rows, std::size_t columns) {
    require(view.extent(0) == rows && view.extent(1) == columns, kernel, ": ", what, " must be ", rows, " x ", columns, ", found ",
            view.extent(0), " x ", view.extent(1));
}

}  // namespace lockstep::kernel
