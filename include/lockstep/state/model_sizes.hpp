#pragma once
// The sizes of a decoder-only Transformer: what flags, presets and config.json say, checked once.

#include <array>
#include <cmath>
#include <cstddef>
#include <optional>
#include <string_view>
#include <utility>

#include "lockstep/core/error.hpp"

namespace lockstep::state {

enum class Architecture { gpt2, llama };

constexpr std::string_view name(Architecture arch) noexcept { return arch == Architecture::gpt2 ? "gpt2" : "llama"; }

constexpr std::optional<Architecture> find_architecture(std::string_view text) noexcept {
    if (text == "gpt2") return Architecture::gpt2;
    if (text == "llama") return Architecture::llama;
    return std::nullopt;
}

struct ModelSizes {
    Architecture arch       = Architecture::gpt2;
    std::size_t  layers     = 1;
    std::size_t  heads      = 1;
    std::size_t  kv_heads   = 1;  // gpt2: as many as heads
    std::size_t  dim        = 64;
    std::size_t  ffn        = 256;
    std::size_t  vocab      = 256;
    std::size_t  sequence   = 64;  // longest sequence; gpt2: rows of the position table
    double       norm_eps   = 1e-5;
    double       rope_theta = 10000;
    bool         tied       = true;  // the head is the token embedding: gpt2 yes, llama no

    bool operator==(ModelSizes const&) const = default;

    constexpr std::size_t head_size() const noexcept { return dim / heads; }

    /// Raises an input error that begins with `who` unless a model of these sizes can exist.
    /// Afterwards no product of two sizes, and no count of parameters or of their bytes, overflows.
    void validate(std::string_view who = "model sizes") const {
        using Named = std::pair<std::string_view, std::size_t>;
        if (layers == 0 || layers > most_layers) input_error(who, ": layers must be from 1 to ", most_layers, ", found ", layers);
        for (auto const& [what, size] : std::array<Named, 6>{
                 Named{"heads", heads}, {"kv-heads", kv_heads}, {"dim", dim}, {"ffn", ffn}, {"vocab", vocab}, {"sequence", sequence}})
            if (size == 0 || size > largest) input_error(who, ": ", what, " must be from 1 to ", largest, ", found ", size);
        if (dim % heads != 0) input_error(who, ": dim must be a multiple of heads, found dim ", dim, " and ", heads, " heads");
        if (heads % kv_heads != 0)
            input_error(who, ": heads must be a multiple of kv-heads, found ", heads, " heads and ", kv_heads, " kv-heads");
        bool const gpt2 = arch == Architecture::gpt2;
        if (gpt2 && kv_heads != heads)
            input_error(who, ": gpt2 has as many kv-heads as heads, found ", heads, " heads and ", kv_heads, " kv-heads");
        if (!gpt2 && head_size() % 2 != 0)
            input_error(who, ": llama rotates pairs, so dim / heads must be even, found ", dim, " / ", heads, " = ", head_size());
        if (tied != gpt2)
            input_error(who, ": the head of ", name(arch), gpt2 ? " must be tied to the embedding" : " must not be tied to the embedding");
        if (!(norm_eps > 0 && norm_eps < 1)) input_error(who, ": the epsilon of the norms must be between 0 and 1, found ", norm_eps);
        if (!(rope_theta >= 1 && std::isfinite(rope_theta))) input_error(who, ": rope theta must be at least 1, found ", rope_theta);
        double const d = static_cast<double>(dim), f = static_cast<double>(ffn), v = static_cast<double>(vocab),
                     t          = static_cast<double>(sequence);
        double const parameters = static_cast<double>(layers) * (4 * d * d + 3 * d * f) + 2 * v * d + t * d;
        if (parameters > 0x1p48) input_error(who, ": a model must have at most 2^48 parameters, found ", parameters);
    }

    static constexpr std::size_t largest     = 0x7FFFFFFF;  // tokens and positions are ints
    static constexpr std::size_t most_layers = 65536;       // each is a unit with a table
};

}  // namespace lockstep::state
