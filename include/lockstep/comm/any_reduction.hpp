#pragma once
// A reduction whose kind is chosen at run time.

#include <variant>

#include "lockstep/comm/ordered_reduction.hpp"
#include "lockstep/comm/vendor_reduction.hpp"

namespace lockstep::comm {

/// An `OrderedReduction` or a `VendorReduction`; see there.
template <class T = float>
class AnyReduction {
public:
    /// The vendor's has no narrow wire: MPI would round at every hop. Then raises an input error.
    AnyReduction(Endpoint const& end, std::span<Range const> parts, Wire wire, Reduction how, int channel)
        : chosen_(make(end, parts, wire, how, channel)) {}

    std::size_t scratch_bytes() const noexcept {
        return visit([](auto const& reduction) { return reduction.scratch_bytes(); });
    }
    void prepare(std::span<T> buffer, std::span<T> mine, bool add, Result result, std::span<std::byte> scratch) {
        visit([&](auto& reduction) { reduction.prepare(buffer, mine, add, result, scratch); });
    }
    bool advance(Window& window) {
        return visit([&](auto& reduction) { return reduction.advance(window); });
    }
    bool advance() {
        Window window;
        return advance(window);
    }
    void wait() {
        visit([](auto& reduction) { reduction.wait(); });
    }
    void abandon() noexcept {
        visit([](auto& reduction) { reduction.abandon(); });
    }

private:
    using Chosen = std::variant<OrderedReduction<T>, VendorReduction<T>>;

    static Chosen make(Endpoint const& end, std::span<Range const> parts, Wire wire, Reduction how, int channel) {
        if (how == Reduction::ordered) return OrderedReduction<T>(end, parts, wire, channel);
        if (wire != Wire::fp32) input_error("reduction: the vendor's sums what travels, expected an fp32 wire, found bf16");
        return VendorReduction<T>(end, parts);
    }

    template <class Body>
    decltype(auto) visit(Body const& body) {
        if (auto* const ordered = std::get_if<0>(&chosen_)) return body(*ordered);
        return body(*std::get_if<1>(&chosen_));
    }
    template <class Body>
    decltype(auto) visit(Body const& body) const {
        if (auto const* const ordered = std::get_if<0>(&chosen_)) return body(*ordered);
        return body(*std::get_if<1>(&chosen_));
    }

    Chosen chosen_;
};

}  // namespace lockstep::comm
