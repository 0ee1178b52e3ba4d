#pragma once
// A report that tests know by heart.

#include <cmath>
#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>

#include "lockstep/report/page.hpp"
#include "recorded.hpp"

namespace lockstep::test {

inline report::Page example_page() {
    report::Page page;
    page.title     = "a <run> & \"more\"";
    page.subtitle  = "it ended </script><script>document.title = 'broken'</script>";
    page.about     = {{"model", "gpt2 <b>"}, {"data", "a & b"}};
    page.slow      = "rank 1 came last in 2 of 3 steps";
    page.ranks     = 2;
    page.recording = recorded();
    for (std::uint64_t step = 1; step <= 3; ++step) {
        report::StepMetrics m{.step = step, .loss = 4.0 - static_cast<double>(step)};
        double const        first = step == 1 ? 5 : 1;  // the first step warms up
        m.step_ms                 = 10 * first;
        m.compute_ms              = 6 * first;
        m.exposed_parameters_ms   = 0.5;
        m.exposed_gradients_ms    = 1.25;
        m.late_peer_ms            = 0.25;
        m.update_ms               = 1.5;
        m.data_ms                 = 0.1;
        m.other_ms                = 0.4;
        m.comm_ms                 = 3;
        m.hidden_comm_ms          = 1.25;
        m.tokens_per_s            = 12345;
        m.mfu                     = 0.5;
        m.lr                      = 1e-3;
        m.mem_peak_bytes          = 5 << 20;
        for (std::size_t c = 0; c < observe::categories; ++c) m.mem[c] = (c + 1) << 20;
        page.steps.push_back(m);
    }
    page.steps[1].val_loss = 2.5;
    page.steps[2].loss     = std::nan("");
    return page;
}

/// The data that the page holds.
inline nlohmann::json data_of(std::string const& html) {
    std::string const open  = "<script type=\"application/json\" id=\"data\">";
    std::size_t const begin = html.find(open) + open.size();
    return nlohmann::json::parse(html.substr(begin, html.find("</script>", begin) - begin));
}

/// How often a text has a part.
inline std::size_t count_of(std::string const& text, std::string const& part) {
    std::size_t found = 0;
    for (std::size_t at = text.find(part); at != text.npos; at = text.find(part, at + 1)) ++found;
    return found;
}

}  // namespace lockstep::test
