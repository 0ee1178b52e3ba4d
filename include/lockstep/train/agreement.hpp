#pragma once
// Agreement: all ranks must hold the same value; the one that differs is named.

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "lockstep/core/config.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/data/batch.hpp"
#include "lockstep/kernel/isa.hpp"
#include "lockstep/optim/groups.hpp"
#include "lockstep/optim/optimizer.hpp"
#include "lockstep/train/together.hpp"

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
    std::array<Master, 4> values{1, -2, 3, -4}, gradients{Master(0.5), Master(-0.25), Master(0.125), 3};
    std::array<std::array<optim::StateElement<Optimizer, Master>, 4>, Optimizer::state_slots> state{};
    state::Parameter const                                                                    parameter{
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

/// A named value that all ranks must hold.
struct Setting {
    std::string name;
    std::string value;
};

/// A number as the shortest text that reads back as the same, so that values that differ are seen to differ.
template <class Number>
std::string exact_text(Number number) {
    std::array<char, 32> text{};
    return {text.data(), std::to_chars(text.data(), text.data() + text.size(), number).ptr};
}

/// What must be the same on all ranks before the first step.
template <class Sizes, class Options>
std::vector<Setting> configuration(Sizes const& s, Options const& options) {
    std::vector<Setting> all{{"lockstep", LOCKSTEP_VERSION}, {"arch", std::string(name(s.arch))}};
    auto const           add = [&](char const* what, auto value) {
        if constexpr (std::is_enum_v<decltype(value)> || std::is_same_v<decltype(value), bool>)
            all.push_back({what, exact_text(static_cast<int>(value))});
        else
            all.push_back({what, exact_text(value)});
    };
    auto const add_choice = [&](char const* what, auto const& value) {
        if (value)
            add(what, *value);
        else
            all.push_back({what, "none"});
    };
    all.push_back({"kernels", std::string(name(kernel::isa()))});  // where machines differ: share_kernels
    add("layers", s.layers), add("heads", s.heads), add("kv_heads", s.kv_heads), add("dim", s.dim), add("ffn", s.ffn);
    add("vocab", s.vocab), add("sequence", s.sequence), add("norm_eps", s.norm_eps), add("rope_theta", s.rope_theta);
    add("seed", options.seed), add("micro_batch", options.micro_batch), add("max_norm", options.max_norm);
    add("reproducible", options.reproducible);
    add("dropout", options.model.dropout), add("recompute", options.model.recompute), add("unit_blocks", options.model.unit_blocks);
    state::Layout const layout = options.model.layout.value_or(state::Layout{});
    add("layout.panel_rows", layout.panel_rows), add("layout.tile_columns", layout.tile_columns), add("layout.order", layout.order);
    add("layout.paired_weights", layout.paired_weights);
    auto const& strategy = options.strategy;
    add("bucket_bytes", strategy.bucket_bytes), add("first_bucket_bytes", strategy.first_bucket_bytes);
    add("prefetch", strategy.prefetch), add("reshard", strategy.reshard), add("overlap", strategy.overlap);
    add_choice("accumulate", strategy.accumulate), add_choice("wire", strategy.wire);
    add("reduction", strategy.reduction), add("kept", strategy.kept), add("in_flight", strategy.in_flight);
    add("chunk_bytes", strategy.chunk_bytes), add("progress", strategy.progress);
    add("shard_group", strategy.shard_group);
    for (optim::GroupRule const& rule : options.groups.rules) {
        all.push_back({"parameter group", rule.name_contains});
        add("its dimensions", rule.dimensions), add_choice("its decays", rule.decays), add_choice("its learning_rate", rule.learning_rate);
    }
    auto const& scaling = options.loss_scale;
    add("loss_scale.initial", scaling.initial), add("loss_scale.growth", scaling.growth), add("loss_scale.backoff", scaling.backoff);
    add("loss_scale.interval", scaling.interval);
    return all;
}

/// 64-bit mixing of a text.
inline std::uint64_t digest(std::string_view text) noexcept {
    std::uint64_t d = text.size();
    for (char const letter : text) d = digest(d, static_cast<unsigned char>(letter));
    return d;
}
inline std::uint64_t digest(Setting const& setting) noexcept { return digest(digest(setting.name), digest(setting.value)); }
inline std::uint64_t digest(std::span<Setting const> settings) noexcept {
    std::uint64_t d = settings.size();
    for (Setting const& setting : settings) d = digest(d, digest(setting));
    return d;
}

/// Which ranks hold another value than most do (than rank 0, where none is held by most).
struct Disagreement {
    std::vector<std::size_t> differing;
    std::size_t              usual = 0;  // the first rank that holds what most do
    std::size_t              ranks = 0;

    /// Of the ranks that hold one of so many parts: that number modulo `parts`.
    explicit Disagreement(std::span<std::uint64_t const> values, std::size_t parts = 1, std::size_t part = 0) {
        std::size_t most = 0;
        for (std::size_t rank = part; rank < values.size(); rank += parts, ++ranks) {
            std::size_t held = 0;
            for (std::size_t other = part; other < values.size(); other += parts) held += values[other] == values[rank];
            if (held > most) {
                most  = held;
                usual = rank;
            }
        }
        for (std::size_t rank = part; rank < values.size(); rank += parts)
            if (values[rank] != values[usual]) differing.push_back(rank);
    }

    /// "rank 1 differs from rank 0", "ranks 1, 3 differ from the others".
    std::string sentence() const {
        std::string text = differing.size() == 1 ? "rank " : "ranks ";
        for (std::size_t i = 0; i < differing.size(); ++i) text += (i == 0 ? "" : ", ") + std::to_string(differing[i]);
        text += differing.size() == 1 ? " differs from " : " differ from ";
        return text + (ranks - differing.size() == 1 ? "rank " + std::to_string(usual) : "the others");
    }
};

/// Raises the same peer error on every rank if one rank's value differs from what most ranks hold, of those that hold the same part of
/// something: rank r has part r modulo `parts`. Collective.
template <shows_words Ranks>
void agree(Ranks& ranks, std::uint64_t value, std::string_view what, std::size_t parts = 1) {
    std::vector<std::uint64_t> const values = ranks.gather_values(value);
    for (std::size_t part = 0; part < parts; ++part)
        if (Disagreement const found(values, parts, part); !found.differing.empty())
            peer_error("the ranks do not hold the same ", what, ": ", found.sentence());
}

/// The same for settings: the error names the first that differs, with its values, and gives the advice. Collective.
template <shows_words Ranks>
void agree(Ranks& ranks, std::span<Setting const> settings, std::string_view advice) {
    if (Disagreement(ranks.gather_values(digest(settings))).differing.empty()) return;
    std::vector<std::uint64_t> const counts = ranks.gather_values(settings.size());
    for (std::size_t i = 0; i < *std::min_element(counts.begin(), counts.end()); ++i) {
        Disagreement const found(ranks.gather_values(digest(settings[i])));
        if (found.differing.empty()) continue;
        std::size_t const odd   = found.differing[0];
        std::string const other = text_of_rank(ranks, odd, settings[i].value), usual = text_of_rank(ranks, found.usual, settings[i].value);
        std::string const name = text_of_rank(ranks, found.usual, settings[i].name);
        peer_error(name, ": rank ", odd, " has ", other, ", rank ", found.usual, " has ", usual,
                   found.differing.size() > 1 ? "; " + found.sentence() : "", "; ", advice);
    }
    agree(ranks, settings.size(), "number of settings");
}

/// On a cluster of unlike machines, before trainers are made: all ranks use the strongest kernels that each of them would choose. Bits and
/// the order of weights depend on kernels, so trainers refuse ranks whose kernels differ. Returns the family. Collective.
template <shows_words Ranks>
kernel::Isa share_kernels(Ranks& ranks) {
    std::vector<std::uint64_t> const families = ranks.gather_values(static_cast<std::uint64_t>(kernel::isa()));
    auto const                       lowest   = static_cast<kernel::Isa>(*std::min_element(families.begin(), families.end()));
    kernel::use(lowest, "share_kernels");
    return lowest;
}

/// Raises a peer error on every rank unless all bring as many micro-steps and each has sequences of its own, as `first_sample` tells.
/// Collective.
template <shows_words Ranks>
void check_shares(Ranks& ranks, data::Batch const& batch, std::size_t micro_steps) {
    agree(ranks, micro_steps, "number of micro-steps");
    std::vector<std::uint64_t> const first = ranks.gather_values(batch.first_sample), counts = ranks.gather_values(batch.sequences);
    for (std::size_t a = 0; a < first.size(); ++a)
        for (std::size_t b = a + 1; b < first.size(); ++b)
            if (first[a] < first[b] + counts[b] && first[b] < first[a] + counts[a])
                peer_error("ranks ", a, " and ", b, " bring the same sequences: rank ", a, " samples ", first[a], " to ",
                           first[a] + counts[a] - 1, ", rank ", b, " samples ", first[b], " to ", first[b] + counts[b] - 1,
                           "; each must have its own (StreamOptions::rank and ranks, Batch::first_sample)");
}

}  // namespace lockstep
