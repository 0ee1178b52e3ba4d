#pragma once
// Where the time of an average step went.

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "lockstep/report/metrics.hpp"
#include "lockstep/report/readable.hpp"

namespace lockstep::report {

/// Averages over the steps of a run. The first step warms up and is left out, unless it is the only one.
class StepDecomposition {
public:
    struct Part {
        std::string_view      name;
        std::optional<double> StepMetrics::*ms;
    };
    /// The parts of `step_ms`, which sum to it, then the step itself; behind these what exposed communication was for, and what the wire
    /// carried, hidden or not.
    static constexpr std::array<Part, 12> parts{{{"compute", &StepMetrics::compute_ms},
                                                 {"exposed communication", &StepMetrics::exposed_comm_ms},
                                                 {"late peer", &StepMetrics::late_peer_ms},
                                                 {"update", &StepMetrics::update_ms},
                                                 {"data", &StepMetrics::data_ms},
                                                 {"other", &StepMetrics::other_ms},
                                                 {"step", &StepMetrics::step_ms},
                                                 {"for parameters", &StepMetrics::exposed_parameters_ms},
                                                 {"for gradients", &StepMetrics::exposed_gradients_ms},
                                                 {"wire busy", &StepMetrics::comm_ms},
                                                 {"hidden", &StepMetrics::hidden_comm_ms},
                                                 {"hidden by compute", &StepMetrics::hidden_by_compute_ms}}};
    static constexpr std::size_t          whole = 6, exposed = 1, parameters = 7, gradients = 8, wire = 9, hidden = 10, by_compute = 11;

    void add(StepMetrics const& step) {
        if (seen_++ == 1) sums_ = {};
        for (std::size_t i = 0; i < parts.size(); ++i)
            if (auto const ms = step.*parts[i].ms) sums_[i] = {sums_[i].ms + *ms, sums_[i].steps + 1};
    }

    std::uint64_t steps() const noexcept { return seen_ > 1 ? seen_ - 1 : seen_; }
    bool          warm() const noexcept { return seen_ > 1; }  // past the first step

    /// Average of a part over the steps that measured it.
    std::optional<double> average(std::size_t part) const noexcept {
        if (sums_[part].steps == 0) return std::nullopt;
        return sums_[part].ms / static_cast<double>(sums_[part].steps);
    }

    /// A line for each part that was measured: milliseconds, share of the step, and the share as a bar made of `mark`.
    std::string table(std::string_view mark) const {
        auto const right = [](std::string text, std::size_t width) {
            return text.size() < width ? std::string(width - text.size(), ' ') + text : text;
        };
        std::string title = "average of " + std::to_string(steps()) + (steps() == 1 ? " step" : " steps");
        if (seen_ > 1) title += ", without the first";
        title.resize(title.size() < 36 ? 36 : title.size(), ' ');
        std::string lines = title + "      ms     share\n";

        auto const step = average(whole);
        auto const line = [&](std::string_view name, std::size_t part, std::size_t indent, bool bar) {
            auto const ms = average(part);
            if (!ms) return;
            std::string text = std::string(indent, ' ') + std::string(name);
            text.resize(34, ' ');
            lines += text + right(fixed(*ms, 2), 10);
            std::optional<double> share;
            if (step && *step > 0) share = *ms / *step;
            lines += right(share ? fixed(100 * *share, 1) + " %" : "-", 10);
            if (bar && share && *share >= 0.0125 && *share < 1.5) {
                lines += "  ";
                for (double drawn = 0.0125; drawn <= *share; drawn += 0.025) lines += mark;
            }
            lines += '\n';
        };
        for (std::size_t i = 0; i <= whole; ++i) {
            line(parts[i].name, i, 2, i != whole);
            if (i != exposed || average(exposed).value_or(0) <= 0) continue;
            for (std::size_t const part : {parameters, gradients})
                if (average(part).value_or(0) > 0) line(parts[part].name, part, 4, false);
        }
        if (average(wire).value_or(0) > 0) {
            line("wire busy beside it", wire, 2, false);
            if (average(hidden)) line("hidden", hidden, 4, false);
            if (average(by_compute)) line("by compute", by_compute, 6, false);
        }
        return lines;
    }

private:
    struct Sum {
        double        ms    = 0;
        std::uint64_t steps = 0;
    };
    std::array<Sum, parts.size()> sums_{};
    std::uint64_t                 seen_ = 0;
};

}  // namespace lockstep::report
