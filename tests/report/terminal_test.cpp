#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <limits>
#include <sstream>
#include <string>

#include "lockstep/report/terminal.hpp"

namespace terminal_test {

using namespace lockstep::report;

StepMetrics measured(std::uint64_t step) {
    StepMetrics metrics{.step = step, .loss = 2.5, .grad_norm = 1.25};
    metrics.step_ms      = 100;
    metrics.compute_ms   = 80;
    metrics.tokens_per_s = 12345;
    metrics.mfu          = 0.412;
    return metrics;
}

bool contains(std::string const& text, std::string const& part) { return text.find(part) != text.npos; }

auto lines_of(std::string const& text) { return std::count(text.begin(), text.end(), '\n'); }

Screen bar_screen(std::size_t width) { return {.interactive = true, .width = width, .redraw = std::chrono::milliseconds(0)}; }

TEST_CASE("a run writes about fifty plain lines, the first and the last step among them") {
    for (std::uint64_t const first : {0u, 1000u})
        for (std::uint64_t const steps : {1u, 10u, 50u, 97u, 2000u, 12345u}) {
            std::ostringstream out;
            Terminal           terminal(out, first, first + steps, {});
            for (std::uint64_t step = first + 1; step <= first + steps; ++step) terminal.step(measured(step));
            std::string const last = std::to_string(first + steps);
            CHECK(lines_of(out.str()) <= 50);
            CHECK(lines_of(out.str()) >= static_cast<long>(std::min<std::uint64_t>(steps, 24)));
            CHECK(contains(out.str(),
                           std::string(last.size() - std::to_string(first + 1).size(), ' ') + std::to_string(first + 1) + '/' + last));
            CHECK(contains(out.str(), "step " + last + '/' + last));
            CHECK(!contains(out.str(), "\033"));
        }
}

TEST_CASE("a plain line has loss, norm, speed and the time left") {
    std::ostringstream out;
    Terminal           terminal(out, 0, 3, {});
    terminal.step(measured(1));
    terminal.step(measured(2));
    CHECK(out.str() ==
          "step 1/3  loss 2.5000  norm 1.250  12.3 k tok/s  mfu 41.2 %\n"
          "step 2/3  loss 2.5000  norm 1.250  12.3 k tok/s  mfu 41.2 %  0.10 s left\n");
}

TEST_CASE("what was not measured is not invented, and a loss that is not finite is shown as such") {
    std::ostringstream out;
    Terminal           terminal(out, 0, 2, {});
    terminal.step({.step = 1});
    terminal.step({.step = 2, .loss = std::numeric_limits<double>::quiet_NaN()});
    CHECK(out.str() == "step 1/2  loss -\nstep 2/2  loss nan\n");
}

TEST_CASE("a skipped step says why, and the end says how many there were") {
    std::ostringstream out;
    Terminal           terminal(out, 0, 2, {});
    StepMetrics        step = measured(1);
    step.applied            = false;
    step.skip_reason        = "gradient not finite";
    terminal.step(step);
    terminal.step(measured(2));
    terminal.finish();
    CHECK(contains(out.str(), "step 1/2  skipped: gradient not finite  norm 1.250  12.3 k tok/s"));
    CHECK(contains(out.str(), "compute                              80.00    80.0 %"));
    CHECK_FALSE(contains(out.str(), "late peer"));  // not measured
    CHECK(contains(out.str(), "1 step was skipped\n"));
}

TEST_CASE("on a terminal one line is drawn again and again, no wider than the screen") {
    for (std::size_t const width : {10u, 40u, 60u, 80u, 200u}) {
        std::ostringstream out;
        Terminal           terminal(out, 0, 20, bar_screen(width));
        for (std::uint64_t step = 1; step <= 20; ++step) terminal.step(measured(step));
        CHECK(lines_of(out.str()) == 0);
        std::istringstream drawn(out.str().substr(1));
        int                redraws = 0;
        for (std::string line; std::getline(drawn, line, '\r'); ++redraws) {
            CHECK(line.ends_with("\033[K"));
            CHECK(line.size() - 3 < width);
        }
        CHECK(redraws == 20);
    }
}

TEST_CASE("the bar fills from the first step of the run to the last") {
    std::ostringstream out;
    Terminal           terminal(out, 10, 20, bar_screen(200));
    terminal.step(measured(15));
    CHECK(contains(out.str(), "15/20 " + std::string(20, '#') + std::string(20, '-') + "  loss 2.5000"));
    terminal.step(measured(20));
    CHECK(contains(out.str(), "20/20 " + std::string(40, '#') + "  loss 2.5000"));
}

TEST_CASE("an evaluation takes the place of the bar, but the bar of the last step stays") {
    std::ostringstream out;
    Terminal           terminal(out, 0, 2, bar_screen(100));
    terminal.step(measured(1));
    terminal.evaluation(1, 1.9);
    CHECK(out.str().ends_with("\033[K\r\033[Kstep 1/2  validation loss 1.9000\n"));
    terminal.step(measured(2));
    terminal.evaluation(2, 1.8);
    CHECK(out.str().ends_with("\033[K\nstep 2/2  validation loss 1.8000\n"));
}

TEST_CASE("an evaluation without a valid label says so") {
    std::ostringstream out;
    Terminal           terminal(out, 0, 2, {});
    terminal.evaluation(1, {});
    CHECK(out.str() == "step 1/2  no validation loss: no valid labels are held out\n");
}

TEST_CASE("the end says how much memory the step that needed most had") {
    std::ostringstream out;
    Terminal           terminal(out, 0, 3, {});
    for (std::uint64_t const mib : {3u, 7u, 5u}) {
        StepMetrics step    = measured(1);
        step.mem_peak_bytes = mib << 20;
        terminal.step(step);
    }
    terminal.finish();
    CHECK(contains(out.str(), "memory peak 7.00 MiB measured\n"));
}

TEST_CASE("a name in the header cannot move the cursor") {
    RunHeader run;
    run.settings = {{"data", "a\033[2J\xE2\x80\xAE.txt"}};
    CHECK(contains(header_lines(run, 100), "data        a\\x1b[2J\\xe2\\x80\\xae.txt\n"));
}

TEST_CASE("a run without a step ends without a table") {
    std::ostringstream out;
    Terminal(out, 5, 5, {}).finish();
    CHECK(out.str().empty());
}

TEST_CASE("the header names machine, kernels, ranks, sizes and memory by category") {
    RunHeader run;
    run.machine        = {"CPU", 2, std::uint64_t{16} << 30};
    run.isa            = "simd";
    run.ranks          = 2;
    run.settings       = {{"precision", "bf16"}};
    run.parameters     = 124439808;
    run.bytes[0]       = 1024;
    run.bytes[3]       = 2048;
    run.predicted_peak = 4096;
    CHECK(header_lines(run, 80) == "lockstep " LOCKSTEP_VERSION
                                   "\n"
                                   "  machine     CPU, 2 cores, 16.0 GiB\n"
                                   "  runs as     2 ranks with 1 thread each, simd kernels\n"
                                   "  precision   bf16\n"
                                   "  parameters  124 M\n"
                                   "  memory      3.00 KiB a rank, of this:\n"
                                   "              params 1.00 KiB, optimizer 2.00 KiB\n"
                                   "  peak        4.00 KiB a rank predicted\n");
    run.bytes.fill(123456789);
    std::istringstream lines(header_lines(run, 60));
    for (std::string line; std::getline(lines, line);) CHECK(line.size() <= 60);
}

TEST_CASE("standard output of a test is no terminal or has a width") {
    Screen const screen = standard_screen();
    CHECK(screen.width > 0);
    CHECK((screen.interactive || !screen.color));
}

}  // namespace terminal_test
