#pragma once
// A sum over all ranks in two steps: inside groups of ranks, then between those that hold the same shard.

#include <algorithm>
#include <cstddef>
#include <optional>
#include <span>
#include <utility>

#include "lockstep/comm/task.hpp"  // Window
#include "lockstep/comm/wire.hpp"
#include "lockstep/core/assertion.hpp"
#include "lockstep/core/config.hpp"  // alignment

namespace lockstep::parallel {

/// `Reduction` is an operation of a communicator. What lies between the steps is a sum, so it travels as T and is never rounded to a
/// narrower wire. With groups of a power of two of consecutive ranks the tree over all ranks is one inside each group and then one between
/// them, and the bits are those of one step.
template <class Reduction, class T>
class GroupedReduction {
public:
    /// One step.
    explicit GroupedReduction(Reduction all) : inside_(std::move(all)) {}
    /// `between` sums a buffer of `shard` elements.
    GroupedReduction(Reduction inside, Reduction between, std::size_t shard)
        : inside_(std::move(inside)), between_(std::move(between)), shard_(shard) {}

    std::size_t scratch_bytes() const noexcept {
        return between_ ? shard_bytes() + std::max(inside_.scratch_bytes(), between_->scratch_bytes()) : inside_.scratch_bytes();
    }

    /// See `comm::OrderedReduction::prepare`; in two steps sums are scattered.
    void prepare(std::span<T> buffer, std::span<T> mine, bool add, comm::Result result, std::span<std::byte> scratch) {
        step_ = Step::inside;
        if (!between_) return inside_.prepare(buffer, mine, add, result, scratch);
        require(result == comm::Result::scattered, "grouped reduction: sums in two steps are scattered");
        mine_   = mine;
        add_    = add;
        copied_ = 0;
        sums_   = {reinterpret_cast<T*>(scratch.data()), shard_};
        rest_   = scratch.subspan(shard_bytes());
        inside_.prepare(buffer, sums_, false, comm::Result::scattered, rest_);
    }

    bool advance(comm::Window& window) {
        if (step_ == Step::inside) {
            if (!inside_.advance(window)) return false;
            if (!between_) return true;
            between_->prepare(sums_, {}, false, comm::Result::gathered, rest_);
            step_ = Step::between;
        }
        if (step_ == Step::between) {
            if (!between_->advance(window)) return false;
            step_ = Step::copying;
        }
        std::size_t const end = std::min(mine_.size(), copied_ + block);
        for (std::size_t i = copied_; i < end; ++i) mine_[i] = add_ ? mine_[i] + sums_[i] : sums_[i];
        copied_      = end;
        window.moved = true;
        return copied_ == mine_.size();
    }

    void abandon() noexcept {
        inside_.abandon();
        if (between_) between_->abandon();
    }

private:
    enum class Step { inside, between, copying };

    static constexpr std::size_t block = std::size_t{1} << 17;  // elements of a step, so that it takes a fraction of a millisecond

    std::size_t shard_bytes() const noexcept { return (shard_ * sizeof(T) + alignment - 1) / alignment * alignment; }

    Reduction                inside_;
    std::optional<Reduction> between_;
    std::size_t              shard_ = 0;

    Step                 step_ = Step::inside;
    std::span<T>         mine_, sums_;
    std::span<std::byte> rest_;
    bool                 add_    = false;
    std::size_t          copied_ = 0;
};

}  // namespace lockstep::parallel
