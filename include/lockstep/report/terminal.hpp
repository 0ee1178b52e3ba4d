#pragma once
// What a run says on its terminal: header, progress, evaluations, and at the end the decomposition of an average step.

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <ostream>
#include <string>
#include <string_view>

#include "lockstep/report/decomposition.hpp"
#include "lockstep/report/header.hpp"
#include "lockstep/report/metrics.hpp"
#include "lockstep/report/readable.hpp"

namespace lockstep::report {

/// How the output is looked at.
struct Screen {
    bool                      interactive = false;  // a progress bar that redraws itself, else plain lines
    bool                      unicode     = false;
    bool                      color       = false;
    std::size_t               width       = 100;  // columns
    std::chrono::milliseconds redraw{100};        // at most that often
};

/// The screen behind standard output.
inline Screen standard_screen() {
    auto const variable = [](char const* name) {
        char const* const value = std::getenv(name);
        return std::string_view(value != nullptr ? value : "");
    };
    Screen screen;
    for (char const* name : {"LC_ALL", "LC_CTYPE", "LANG"})
        if (std::string_view const locale = variable(name); !locale.empty()) {
            screen.unicode = locale.find("UTF-8") != locale.npos || locale.find("utf8") != locale.npos;
            break;
        }
    screen.interactive = ::isatty(STDOUT_FILENO) != 0 && variable("TERM") != "dumb";
    screen.color       = screen.interactive && variable("NO_COLOR").empty();
    if (::winsize size{}; screen.interactive && ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0)
        screen.width = size.ws_col;
    return screen;
}

/// Writes about 50 plain lines a run, or a bar. `out` must outlive it.
class Terminal {
public:
    /// A run from version `first_step` to version `last_step`.
    Terminal(std::ostream& out, std::uint64_t first_step, std::uint64_t last_step, Screen screen)
        : out_(out), first_(first_step), last_(last_step), screen_(screen), next_line_(first_step + 1) {}

    void header(RunHeader const& run) { out_ << header_lines(run, screen_.width) << '\n' << std::flush; }

    void step(StepMetrics const& step) {
        decomposition_.add(step);
        skipped_ += step.applied ? 0 : 1;
        if (step.step_ms && decomposition_.warm()) average(*step.step_ms);
        peak_bytes_     = std::max(peak_bytes_, step.mem_peak_bytes.value_or(0));
        bool const last = at_end_ = step.step >= last_;
        if (screen_.interactive) {
            auto const now = std::chrono::steady_clock::now();
            if (!last && drawn_ && now - *drawn_ < screen_.redraw) return;
            drawn_ = now;
            out_ << '\r' << bar_line(step) << "\033[K" << std::flush;
            on_bar_ = true;
        } else if (step.step >= next_line_ || (last && step.step > printed_)) {
            std::uint64_t const between = std::max<std::uint64_t>(1, (total() + 47) / 48);
            next_line_                  = step.step - (step.step - first_) % between + between;
            printed_                    = step.step;
            out_ << "step " << position(step.step) << numbers(step, true) << '\n' << std::flush;
        }
    }

    /// The loss is empty where the held-out tokens have no valid label.
    void evaluation(std::uint64_t step, std::optional<double> loss) {
        line("step " + position(step) +
             (loss ? "  validation loss " + fixed(*loss, 4) : "  no validation loss: no valid labels are held out"));
    }

    /// A line of its own, in the place of the bar, which comes back with the next step. The bar of the last step stays.
    void line(std::string_view text) {
        if (on_bar_) out_ << (at_end_ ? "\n" : "\r\033[K");
        on_bar_ = false;
        drawn_.reset();
        out_ << text << '\n' << std::flush;
    }

    /// The average step, the most memory of a step, and what was skipped. Nothing where no step was done.
    void finish() {
        if (on_bar_) out_ << '\n';
        on_bar_ = false;
        if (decomposition_.steps() == 0) return;
        out_ << '\n' << decomposition_.table(screen_.unicode ? "\u2501" : "#");
        if (peak_bytes_ != 0) out_ << "memory peak " << readable_bytes(peak_bytes_) << " measured" << '\n';
        if (skipped_ != 0) out_ << skipped_ << (skipped_ == 1 ? " step was skipped\n" : " steps were skipped\n");
        out_ << std::flush;
    }

    StepDecomposition const& decomposition() const noexcept { return decomposition_; }

private:
    std::uint64_t total() const noexcept { return last_ > first_ ? last_ - first_ : 1; }

    /// Exponential moving average of the step time, free of the bias of its start.
    void average(double ms) {
        constexpr double keep = 0.95;
        sum_                  = keep * sum_ + (1 - keep) * ms;
        weight_               = keep * weight_ + (1 - keep);
    }

    std::string position(std::uint64_t step) const {
        std::string const last = std::to_string(last_);
        std::string const now  = std::to_string(step);
        return std::string(now.size() < last.size() ? last.size() - now.size() : 0, ' ') + now + '/' + last;
    }

    std::string numbers(StepMetrics const& step, bool all) const {
        std::string text;
        if (step.applied)
            text += "  loss " + (step.loss ? fixed(*step.loss, 4) : "-");
        else
            text += "  skipped: " + (step.skip_reason.empty() ? "no reason given" : step.skip_reason);
        if (all && step.grad_norm) text += "  norm " + fixed(*step.grad_norm, 3);
        if (step.tokens_per_s) text += "  " + readable_count(*step.tokens_per_s) + " tok/s";
        if (step.mfu) text += "  mfu " + fixed(100 * *step.mfu, 1) + " %";
        if (weight_ > 0 && step.step < last_)
            text += "  " + readable_duration(sum_ / weight_ * 1e-3 * static_cast<double>(last_ - step.step)) + " left";
        return text;
    }

    std::string bar_line(StepMetrics const& step) const {
        std::string const start = position(step.step) + ' ';
        std::string       end   = numbers(step, false);
        std::size_t const used  = start.size() + end.size() + 3;
        std::size_t const room  = used < screen_.width ? std::min<std::size_t>(40, screen_.width - used) : 0;
        if (room < 6) return (start + end).substr(0, screen_.width > 1 ? screen_.width - 1 : 0);
        double const      done = static_cast<double>(step.step > first_ ? step.step - first_ : 0) / static_cast<double>(total());
        std::size_t const full = static_cast<std::size_t>(std::min(1.0, done) * static_cast<double>(room));
        std::string       bar  = start;
        for (std::size_t i = 0; i < full; ++i) bar += screen_.unicode ? "\u2501" : "#";
        if (screen_.color) bar += "\033[2m";
        for (std::size_t i = full; i < room; ++i) bar += screen_.unicode ? "\u2500" : "-";
        if (screen_.color) bar += "\033[0m";
        return bar + end;
    }

    std::ostream&     out_;
    std::uint64_t     first_, last_;
    Screen            screen_;
    std::uint64_t     next_line_;
    std::uint64_t     printed_    = 0;
    std::uint64_t     skipped_    = 0;
    std::uint64_t     peak_bytes_ = 0;  // of this rank
    StepDecomposition decomposition_;
    double            sum_ = 0, weight_ = 0;
    bool              on_bar_ = false, at_end_ = false;

    std::optional<std::chrono::steady_clock::time_point> drawn_;
};

}  // namespace lockstep::report
