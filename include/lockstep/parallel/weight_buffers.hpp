#pragma once
// The compute weights of all units on a rank that holds them whole, in one copy or in two.

#include <span>
#include <vector>

#include "lockstep/parallel/strategy.hpp"
#include "lockstep/state/bucket.hpp"

namespace lockstep::parallel {

template <class Compute, class Storage>
class WeightBuffers {
public:
    WeightBuffers(std::span<state::Unit const> units, observe::Category category)
        : offsets_(state::unit_offsets(units)),
          forward_(offsets_.back(), category),
          input_grad_(!units.empty() && units[0].paired ? offsets_.back() : 0, category) {}

    std::span<Compute> forward(std::size_t unit) noexcept { return part(forward_.span(), unit); }
    std::span<Compute> input_grad(std::size_t unit) noexcept {
        return input_grad_.span().empty() ? std::span<Compute>{} : part(input_grad_.span(), unit);
    }
    Weights<Compute> whole(std::size_t unit) noexcept { return {forward(unit), input_grad(unit)}; }

private:
    std::span<Compute> part(std::span<Compute> all, std::size_t unit) const noexcept {
        return all.subspan(offsets_[unit], offsets_[unit + 1] - offsets_[unit]);
    }

    std::vector<std::size_t>                   offsets_;
    typename Storage::template Buffer<Compute> forward_;
    typename Storage::template Buffer<Compute> input_grad_;
};

}  // namespace lockstep::parallel
