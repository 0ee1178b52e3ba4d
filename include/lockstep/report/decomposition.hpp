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
    /// The parts of `step_ms`, which sum to it, and last the step itself.
    static constexpr std::array<Part, 7> parts{{{"compute", &StepMetrics::compute_ms},
                                                {"exposed communication", &StepMetrics::exposed_comm_ms},
                                                {"late peer", &StepMetrics::late_peer_ms},
                                                {"update", &StepMetrics::update_ms},
                                                {"data", &StepMetrics::data_ms},
                                                {"other", &StepMetrics::other_ms},
                                                {"step", &StepMetrics::step_ms}}};

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

    /// A line for each part: milliseconds, share of the step, and the share as a bar made of `mark`.
    std::string table(std::string_view mark) const {
        auto const right = [](std::string text, std::size_t width) {
            return text.size() < width ? std::string(width - text.size(), ' ') + text : text;
        };
        std::string title = "average of " + std::to_string(steps()) + (steps() == 1 ? " step" : " steps");
        if (seen_ > 1) title += ", without the first";
        title.resize(title.size() < 36 ? 36 : title.size(), ' ');
        std::string lines = title + "      ms     share\n";

        auto const whole = average(parts.size() - 1);
        for (std::size_t i = 0; i < parts.size(); ++i) {
            auto const  ms   = average(i);
            std::string name = "  " + std::string(parts[i].name);
            name.resize(34, ' ');
            lines += name + right(ms ? fixed(*ms, 2) : "-", 10);
            std::optional<double> share;
            if (ms && whole && *whole > 0) share = *ms / *whole;
            lines += right(share ? fixed(100 * *share, 1) + " %" : "-", 10);
            if (share && *share >= 0.0125 && *share < 1.5 && i + 1 < parts.size()) {
                lines += "  ";
                for (double drawn = 0.0125; drawn <= *share; drawn += 0.025) lines += mark;
            }
            lines += '\n';
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
