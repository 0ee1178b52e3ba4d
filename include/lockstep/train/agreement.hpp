#pragma once
// Agreement: all ranks must hold the same value; the one that differs is named.

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/core/config.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/optim/groups.hpp"
#include "lockstep/optim/optimizer.hpp"

namespace lockstep {

/// 64-bit mixing of a running digest with one more value.
constexpr std::uint64_t digest(std::uint64_t seed, std::uint64_t value) noexcept {
    std::uint64_t x = seed ^ (value + 0x9E3779B97F4A7C15u + (seed << 6) + (seed >> 2));
    x               = (x ^ x >> 30) * 0xBF58476D1CE4E5B9u;
    x               = (x ^ x >> 27) * 0x94D049BB133111EBu;
    return x ^ x >> 31;
}

/// Of what an optimizer does: two updates of four numbers, whatever options it has.
template <class Optimizer, class Master>
std::uint64_t behaviour_digest(Optimizer const& optimizer) {
    std::array<Master, 4>                                     values{1, -2, 3, -4}, gradients{Master(0.5), Master(-0.25), Master(0.125), 3};
    std::array<std::array<optim::StateElement<Optimizer, Master>, 4>, Optimizer::state_slots> state{};
    state::Parameter const                                    parameter{
                                           .name = "probe", .rows = 4, .columns = 1, .dimensions = 2, .map = {4, 1}, .decays = true, .initial = {}};
    std::uint64_t d = 0;
    for (std::uint64_t step = 1; step <= 2; ++step) {
        optim::Slots<Optimizer, Master> slots;
        for (std::size_t s = 0; s < Optimizer::state_slots; ++s) slots[s] = state[s];
        optimizer.update(optim::Slice<Master>{parameter, {0, 4}, values, gradients}, slots,
                         {.step = step, .learning_rate = 0.01, .gradient_scale = 1});
        for (Master value : values) d = digest(d, std::bit_cast<std::uint64_t>(static_cast<double>(value)));
        for (Master& gradient : gradients) gradient *= Master(-0.75);  // equal gradients would hide the decay of averages
    }
    return d;
}

/// Of what must be the same on all ranks before the first step.
template <class Sizes, class Options>
std::uint64_t configuration_digest(Sizes const& s, Options const& options) {
    std::uint64_t d = digest(0, LOCKSTEP_VERSION_MAJOR << 16 | LOCKSTEP_VERSION_MINOR << 8 | LOCKSTEP_VERSION_PATCH);
    for (std::uint64_t size : {static_cast<std::uint64_t>(s.arch), s.layers, s.heads, s.kv_heads, s.dim, s.ffn, s.vocab, s.sequence})
        d = digest(d, size);
    d                          = digest(digest(d, std::bit_cast<std::uint64_t>(s.norm_eps)), std::bit_cast<std::uint64_t>(s.rope_theta));
    d                          = digest(digest(d, options.seed), options.micro_batch);
    d                          = digest(d, std::bit_cast<std::uint64_t>(options.max_norm));
    d                          = digest(digest(d, std::bit_cast<std::uint32_t>(options.model.dropout)), options.model.recompute);
    state::Layout const layout = options.model.layout.value_or(state::Layout{});
    d                          = digest(digest(digest(d, layout.panel_rows), layout.tile_columns),
                                        static_cast<std::uint64_t>(layout.order) << 1 | layout.paired_weights);
    auto const& strategy       = options.strategy;
    d                          = digest(digest(digest(d, strategy.bucket_bytes), strategy.first_bucket_bytes), strategy.prefetch);
    d                          = digest(d, static_cast<std::uint64_t>(strategy.reshard));
    d                          = digest(d, strategy.accumulate ? 1 + static_cast<std::uint64_t>(*strategy.accumulate) : 0);
    d                          = digest(d, strategy.wire ? 1 + static_cast<std::uint64_t>(*strategy.wire) : 0);
    d                          = digest(d, strategy.overlap);
    for (optim::GroupRule const& rule : options.groups.rules) {
        for (char const letter : rule.name_contains) d = digest(d, static_cast<unsigned char>(letter));
        d = digest(digest(d, static_cast<std::uint64_t>(rule.dimensions)), rule.decays ? 1 + std::uint64_t{*rule.decays} : 0);
        d = digest(d, rule.learning_rate ? std::bit_cast<std::uint64_t>(*rule.learning_rate) : 1);
    }
    auto const& scaling = options.loss_scale;
    for (double factor : {scaling.initial, scaling.growth, scaling.backoff}) d = digest(d, std::bit_cast<std::uint64_t>(factor));
    return digest(d, scaling.interval);
}

/// Raises a peer error on every rank if one rank's value differs from what most ranks hold (from rank 0's where none is held by most).
/// Collective.
template <class Strategy>
void agree(Strategy& strategy, std::uint64_t value, std::string_view what) {
    std::vector<std::uint64_t> const values = strategy.gather_values(value);
    std::uint64_t                    usual  = values[0];
    std::size_t                      most   = 0;
    for (std::uint64_t candidate : values) {
        std::size_t const held = static_cast<std::size_t>(std::count(values.begin(), values.end(), candidate));
        if (held > most) {
            most  = held;
            usual = candidate;
        }
    }
    std::string differing;
    for (std::size_t rank = 0; rank < values.size(); ++rank)
        if (values[rank] != usual) differing += (differing.empty() ? "" : ", ") + std::to_string(rank);
    if (!differing.empty())
        peer_error("the ranks do not hold the same ", what, ": rank ", differing, " of ", values.size(),
                   " ranks differs from the others (this is rank ", strategy.rank(), ")");
}

}  // namespace lockstep
