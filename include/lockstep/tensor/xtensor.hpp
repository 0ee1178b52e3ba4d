#pragma once
// The door to xtensor, whose headers moved into folders with 0.26.

#if __has_include(<xtensor/containers/xtensor.hpp>)
#include <xtensor/containers/xadapt.hpp>
#include <xtensor/containers/xtensor.hpp>
#include <xtensor/core/xnoalias.hpp>
#include <xtensor/views/xstrided_view.hpp>
#else
#include <xtensor/xadapt.hpp>
#include <xtensor/xnoalias.hpp>
#include <xtensor/xstrided_view.hpp>
#include <xtensor/xtensor.hpp>
#endif

#include <array>
#include <utility>

#include "lockstep/tensor/view.hpp"

namespace lockstep::tensor {

/// A view as an xtensor expression over the same memory: shape and strides of the view, nothing copied; what is assigned is written
/// through. A strided view, since an adaptor with gaps between its rows writes into the gaps (xtensor 0.24).
template <class T, std::size_t Rank>
auto as_xtensor(View<T, Rank> view) {
    std::size_t reach = view.size() == 0 ? 0 : 1;
    if (reach != 0)
        for (std::size_t d = 0; d < Rank; ++d) reach += (view.extent(d) - 1) * view.stride(d);
    std::array<std::size_t, Rank>    shape = view.extents();
    std::array<std::ptrdiff_t, Rank> strides{};
    for (std::size_t d = 0; d < Rank; ++d) strides[d] = static_cast<std::ptrdiff_t>(view.stride(d));
    auto memory = xt::adapt(view.data(), reach, xt::no_ownership(), std::array<std::size_t, 1>{reach});
    return xt::strided_view(std::move(memory), std::move(shape), std::move(strides), 0, xt::layout_type::dynamic);
}

/// A tensor that owns its elements, of any number of dimensions.
template <class T>
using Array = xt::xarray<T>;

/// An expression evaluated, its elements converted.
template <class T, class Expression>
Array<T> evaluated_as(Expression const& expression) {
    return xt::cast<T>(expression);
}

}  // namespace lockstep::tensor
