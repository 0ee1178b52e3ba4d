#pragma once
// Storage in xtensor containers, one a tensor: easy to inspect, an allocation for each activation of a step.

#include <algorithm>
#include <memory>
#include <new>
#include <vector>

#include "lockstep/tensor/booked_memory.hpp"
#include "lockstep/tensor/storage.hpp"
#include "lockstep/tensor/xtensor.hpp"

namespace lockstep::tensor {

struct XtensorStorage {
    template <class T>
    using Container = xt::xtensor_container<xt::uvector<T, BookedAllocator<T>>, 1, xt::layout_type::row_major>;

    template <class T>
    class Buffer {
    public:
        Buffer() = default;
        Buffer(std::size_t count, observe::Category category)
            : container_(xt::uvector<T, BookedAllocator<T>>(count, T{}, BookedAllocator<T>(category)), {count}, {1}) {}
        Buffer(Buffer&&) = default;
        /// xt::uvector leaves its allocator, and with it the category, behind when it is assigned to.
        Buffer& operator=(Buffer&& other) noexcept {
            if (this == &other) return *this;
            std::destroy_at(&container_);
            std::construct_at(&container_, std::move(other.container_));
            return *this;
        }
        ~Buffer() = default;
        std::span<T>        span() noexcept { return {container_.data(), container_.size()}; }
        Container<T> const& container() const noexcept { return container_; }

    private:
        Container<T> container_;
    };

    class Workspace {
    public:
        using Mark = std::size_t;

        template <class T, std::size_t Rank>
        View<T, Rank> take(std::array<std::size_t, Rank> extents) {
            std::size_t bytes = sizeof(T);
            for (std::size_t extent : extents) bytes *= extent;
            tensors_.emplace_back(std::max<std::size_t>(bytes, 1), observe::Category::activations);
            return {reinterpret_cast<T*>(tensors_.back().span().data()), extents};
        }

        Mark mark() const noexcept { return tensors_.size(); }
        void rewind(Mark mark) { tensors_.resize(mark); }

        template <class T, std::size_t Rank>
        View<T, Rank> keep(Mark mark, View<T, Rank> view) {
            auto const* const data  = reinterpret_cast<unsigned char const*>(view.data());
            auto const        found = std::find_if(tensors_.begin() + static_cast<std::ptrdiff_t>(mark), tensors_.end(),
                                                   [&](auto& tensor) { return tensor.span().data() == data; });
            require(found != tensors_.end(), "Workspace::keep: the tensor was not taken since the mark");
            std::iter_swap(tensors_.begin() + static_cast<std::ptrdiff_t>(mark), found);
            tensors_.resize(mark + 1);
            return view;
        }

    private:
        std::vector<Buffer<unsigned char>> tensors_;
    };
};
static_assert(storage<XtensorStorage>);

}  // namespace lockstep::tensor
