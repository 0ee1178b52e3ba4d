#pragma once
// Masters: the full-precision parameters and optimizer state that this rank owns, and the one pass that updates them.

#include <algorithm>
#include <cmath>
#include <concepts>
#include <vector>

#include "lockstep/core/exact_sum.hpp"
#include "lockstep/core/random.hpp"
#include "lockstep/kernel/checksum.hpp"
#include "lockstep/kernel/convert.hpp"
#include "lockstep/kernel/denormals.hpp"
#include "lockstep/kernel/elementwise.hpp"
#include "lockstep/kernel/norm.hpp"
#include "lockstep/kernel/weight_copies.hpp"
#include "lockstep/optim/groups.hpp"
#include "lockstep/optim/optimizer.hpp"
#include "lockstep/parallel/strategy.hpp"
#include "lockstep/runtime/parallel_for.hpp"
#include "lockstep/train/nonfinite.hpp"

namespace lockstep {

/// Masters are the compute weights themselves where both have the same type.
template <class Precision, class Optimizer, class Storage>
class Masters {
public:
    using Compute = typename Precision::compute;
    using Master  = typename Precision::master;
    using State   = optim::StateElement<Optimizer, Master>;
    using Owned   = parallel::Owned<Compute, Master>;

    static constexpr bool        shared_with_weights = std::same_as<Compute, Master>;
    static constexpr std::size_t state_slots         = Optimizer::state_slots;

    Masters(std::span<state::Unit const> units, std::vector<Owned> owned, optim::ParameterGroups const& groups)
        : units_(units), owned_(std::move(owned)) {
        groups.check(units);
        std::size_t count = 0;
        for (Owned const& part : owned_) count += part.range.size();
        if constexpr (!shared_with_weights) masters_ = {count, observe::Category::masters};
        slots_ = {count * Optimizer::state_slots, observe::Category::optimizer_state};

        std::size_t before = 0;
        for (std::size_t u = 0; u < units.size(); ++u) {
            values_.push_back(whole_masters(u, before));
            for (state::Parameter const& parameter : units[u].parameters) {
                add_pieces(u, parameter, groups.of(parameter), before, count);
                add_counted(u, parameter, intersect(parameter.range(), owned_[u].counted), count);
            }
            before += owned_[u].range.size();
        }
    }

    /// This rank's part of a unit.
    std::span<Master> values(std::size_t unit) noexcept { return values_[unit]; }

    /// One slot of the optimizer's state of this rank's part of a unit.
    std::span<State> state(std::size_t unit, std::size_t slot) noexcept {
        std::size_t before = 0;
        for (std::size_t u = 0; u < unit; ++u) before += owned_[u].range.size();
        return slots_.span().subspan(before + slot * slot_stride_, owned_[unit].range.size());
    }

    /// Every element from its own random number, whoever owns it.
    void initialize(std::uint64_t seed) {
        for_each_element([seed](state::Parameter const& parameter, std::size_t element) {
            if (parameter.initial.deviation == 0) return static_cast<Master>(parameter.initial.mean);
            return static_cast<Master>(parameter.initial.mean +
                                       parameter.initial.deviation * random_normal({seed, parameter.purpose, 0}, element));
        });
    }

    /// Row-major values of one parameter of a unit; what this rank does not own is passed over.
    void assign(std::size_t unit, state::Parameter const& parameter, std::span<float const> row_major) {
        assign_parameter(unit, parameter,
                         [&](state::Parameter const&, std::size_t element) { return static_cast<Master>(row_major[element]); });
    }

    /// Rounds the masters into the compute weights.
    void write_weights() {
        runtime::parallel_for(pieces_.size(), piece_elements, [&](std::size_t i) { write_weights(pieces_[i]); });
    }

    /// The sum of the squares of all gradients that this rank counts; equal bits however they are shared out.
    ExactSum gradient_squares() const { return kernel::sum_of_squares(std::span<kernel::Granules<Master> const>(counted_)); }

    /// Of the gradients that this rank owns, the key of the first that is not finite, from the last parameter of the last unit on: backward
    /// goes about that way.
    std::uint64_t first_nonfinite() const {
        std::size_t order = 0;
        for (std::size_t u = units_.size(); u-- > 0;)
            for (std::size_t p = units_[u].parameters.size(); p-- > 0; ++order) {
                Range const range = intersect(units_[u].parameters[p].range(), owned_[u].range);
                if (range.empty()) continue;
                auto const gradients = owned_[u].gradients.subspan(range.begin - owned_[u].range.begin, range.size());
                if (!all_finite(std::span<Master const>(gradients))) return NonFinite::key(NonFinite::In::sum, order, u, p);
            }
        return NonFinite::key(NonFinite::In::nothing);
    }

    /// A number that changes when any owned master does.
    std::uint64_t checksum() const {
        std::uint64_t sum = 0;
        for (std::size_t u = 0; u < units_.size(); ++u)
            sum += kernel::checksum(std::span<Master const>(values_[u]), (static_cast<std::uint64_t>(u) << 40) + owned_[u].range.begin);
        return sum;
    }

    /// Updates what this rank owns, rounds it into the compute weights and clears the gradients, block by block. Running means of what has
    /// no gradient for long decay to zero, not to denormals, where they would stay.
    void update(Optimizer const& optimizer, optim::StepInfo const& step) {
        runtime::parallel_for(pieces_.size(), piece_elements, [&](std::size_t i) {
            kernel::DenormalsAreZero const flush;
            Piece const&                   piece = pieces_[i];
            std::size_t const              n     = piece.range.size();
            optim::StepInfo                info  = step;
            info.learning_rate *= piece.learning_rate;
            optim::Slots<Optimizer, Master> slots;
            for (std::size_t s = 0; s < Optimizer::state_slots; ++s) slots[s] = {piece.slots + s * slot_stride_, n};
            optimizer.update(optim::Slice<Master>{piece.parameter, piece.range, {piece.values, n}, {piece.gradients, n}}, slots, info);
            write_weights(piece);
            std::fill_n(piece.gradients, n, Master{});
        });
    }

    /// Clears the gradients of a step that is not applied.
    void discard_gradients() {
        for (Owned& part : owned_) kernel::fill(part.gradients, Master{});
    }

private:
    static constexpr std::size_t piece_elements = 16384;  // masters, gradients, two slots and weights stay in the L2 cache

    /// What one task updates: part of one parameter, or all of it for an optimizer that needs whole tensors.
    struct Piece {
        state::Parameter parameter;  // with the group's decay
        Range            range;      // of the unit
        Master*          values;
        Master*          gradients;
        Compute*         weights;
        Compute*         weights_paired;  // null where there is one copy
        State*           slots;
        double           learning_rate;
    };

    std::span<Master> whole_masters(std::size_t unit, [[maybe_unused]] std::size_t before) {
        if constexpr (shared_with_weights)
            return owned_[unit].weights;
        else
            return masters_.span().subspan(before, owned_[unit].range.size());
    }

    static void write_weights(Piece const& piece) {
        if constexpr (!shared_with_weights) {
            std::size_t const n      = piece.range.size();
            auto const        values = std::span<Master const>(piece.values, n);
            if (piece.weights_paired == nullptr)
                kernel::convert_block(values, std::span<Compute>(piece.weights, n));
            else
                kernel::write_weight_copies(piece.parameter.dimensions > 1, values, std::span(piece.weights, n),
                                            std::span(piece.weights_paired, n));
        }
    }

    void add_pieces(std::size_t unit, state::Parameter const& parameter, optim::Group group, std::size_t before, std::size_t count) {
        Owned const&      owned = owned_[unit];
        Range const       range = intersect(parameter.range(), owned.range);
        std::size_t const step  = optim::enable_elementwise<Optimizer> ? piece_elements : std::max<std::size_t>(range.size(), 1);
        slot_stride_            = count;
        for (std::size_t begin = range.begin; begin < range.end; begin += step) {
            std::size_t const at = begin - owned.range.begin;
            Piece             piece{parameter,
                        {begin, std::min(range.end, begin + step)},
                        values_[unit].data() + at,
                        owned.gradients.data() + at,
                        owned.weights.data() + at,
                        owned.weights_paired.empty() ? nullptr : owned.weights_paired.data() + at,
                        slots_.span().data() + before + at,
                        group.learning_rate};
            piece.parameter.decays = group.decays;
            pieces_.push_back(std::move(piece));
        }
    }

    /// Gradients that this rank counts, in parts of whole granules: at least so many elements that an exact sum for each does not matter.
    void add_counted(std::size_t unit, state::Parameter const& parameter, Range range, std::size_t count) {
        if (range.empty()) return;
        std::size_t const granule = parameter.map.granule(), wanted = std::max<std::size_t>(32768, count / 256);
        std::size_t const step = (wanted + granule - 1) / granule * granule;
        for (std::size_t begin = range.begin; begin < range.end; begin += step)
            counted_.push_back(
                {owned_[unit].gradients.subspan(begin - owned_[unit].range.begin, std::min(step, range.end - begin)), granule});
    }

    template <class Value>
    void for_each_element(Value const& value) {
        for (std::size_t u = 0; u < units_.size(); ++u)
            for (state::Parameter const& parameter : units_[u].parameters) assign_parameter(u, parameter, value);
    }

    template <class Value>
    void assign_parameter(std::size_t unit, state::Parameter const& parameter, Value const& value) {
        Range const   owned  = owned_[unit].range;
        Master* const values = values_[unit].data();
        runtime::parallel_for(parameter.rows, 32 * parameter.columns, [&](std::size_t row) {
            for (std::size_t column = 0; column < parameter.columns; ++column) {
                std::size_t const position = parameter.offset + parameter.map(row, column);
                if (position >= owned.begin && position < owned.end)
                    values[position - owned.begin] = value(parameter, row * parameter.columns + column);
            }
        });
    }

    std::span<state::Unit const>              units_;
    std::vector<Owned>                        owned_;
    typename Storage::template Buffer<Master> masters_;
    typename Storage::template Buffer<State>  slots_;  // slot after slot, each as long as all that is owned
    std::size_t                               slot_stride_ = 0;
    std::vector<std::span<Master>>            values_;  // by unit
    std::vector<Piece>                        pieces_;
    std::vector<kernel::Granules<Master>>     counted_;
};

}  // namespace lockstep
