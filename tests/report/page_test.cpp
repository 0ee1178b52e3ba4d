// The page as text, and as a browser shows it where Chromium is there (Debian: chromium; LOCKSTEP_BROWSER names another one).

#include "lockstep/report/page.hpp"

#include <doctest/doctest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <regex>
#include <sstream>

#include "recorded.hpp"

namespace page_test {

using namespace lockstep;
using nlohmann::json;

report::Page example() {
    report::Page page;
    page.title     = "a <run> & \"more\"";
    page.subtitle  = "it ended </script><script>document.title = 'broken'</script>";
    page.about     = {{"model", "gpt2 <b>"}, {"data", "a & b"}};
    page.slow      = "rank 1 came last in 2 of 3 steps";
    page.ranks     = 2;
    page.recording = test::recorded();
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
json data_of(std::string const& html) {
    std::string const open  = "<script type=\"application/json\" id=\"data\">";
    std::size_t const begin = html.find(open) + open.size();
    return json::parse(html.substr(begin, html.find("</script>", begin) - begin));
}

std::size_t count(std::string const& text, std::string const& part) {
    std::size_t found = 0;
    for (std::size_t at = text.find(part); at != text.npos; at = text.find(part, at + 1)) ++found;
    return found;
}

std::string browser() {
    if (char const* const named = std::getenv("LOCKSTEP_BROWSER")) return named;
    for (char const* const path : {"/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"})
        if (std::filesystem::exists(path)) return path;
    return {};
}

/// The page after its script has run, as the browser's document says, and what the script said on the console.
std::pair<std::string, std::string> shown(std::string const& html) {
    auto const folder = std::filesystem::temp_directory_path() / ("lockstep_page_test_" + std::to_string(::getpid()));
    std::filesystem::create_directories(folder);
    std::ofstream(folder / "page.html") << html;
    std::string const command =
        browser() +
        " --headless --no-sandbox --disable-gpu --disable-dev-shm-usage --enable-logging=stderr --v=0 --window-size=1200,900"
        " --user-data-dir=" +
        (folder / "profile").string() + " --dump-dom file://" + (folder / "page.html").string() + " > " + (folder / "dom").string() +
        " 2> " + (folder / "log").string();
    int const         code = std::system(command.c_str());
    std::stringstream dom, log;
    dom << std::ifstream(folder / "dom").rdbuf();
    log << std::ifstream(folder / "log").rdbuf();
    std::filesystem::remove_all(folder);
    REQUIRE(code == 0);
    return {dom.str(), log.str()};
}

TEST_CASE("the page needs nothing but itself") {
    std::string const html = report::html(example());
    CHECK(html.starts_with("<!DOCTYPE html>"));
    for (char const* part : {"src=", "href=", "@import", "url(", "fetch(", "XMLHttpRequest", "import("})
        CHECK_MESSAGE(count(html, part) == 0, part);
    std::regex const address("https?://[^\"]*");
    for (auto a = std::sregex_iterator(html.begin(), html.end(), address); a != std::sregex_iterator(); ++a)
        CHECK(a->str() == "http://www.w3.org/2000/svg");  // a name, not a place
    CHECK(count(html, "default-src 'none'") == 1);
}

TEST_CASE("nothing that a run says becomes markup or script") {
    std::string const html = report::html(example());
    CHECK(count(html, "<script") == 2);
    CHECK(count(html, "</script>") == 2);
    CHECK(html.find("<title>a &lt;run&gt; &amp; &quot;more&quot;</title>") != html.npos);
    json const data = data_of(html);
    CHECK(data.at("subtitle") == example().subtitle);
    CHECK(data.at("about").at(0) == json::array({"model", "gpt2 <b>"}));
    CHECK(data.at("units").at(1) == "h.0 \"<&>\"");
}

TEST_CASE("the page holds the numbers of the run, and null for what is not one") {
    json const  data = data_of(report::html(example()));
    auto const& m    = data.at("metrics");
    CHECK(m.at("step") == json::array({1, 2, 3}));
    CHECK(m.at("loss") == json::array({3.0, 2.0, nullptr}));
    CHECK(m.at("val_loss") == json::array({nullptr, 2.5, nullptr}));
    CHECK(m.at("mem8") == json::array({9 << 20, 9 << 20, 9 << 20}));
    REQUIRE(data.at("ranks").size() == 2);
    auto const& record = data.at("ranks").at(1).at("threads").at(1).at("records").at(0);
    CHECK(record == json::array({static_cast<int>(observe::Event::memory), 0, 0, 0, 0, 1000}));  // the first of all: time 0
    CHECK(data.at("collectives").size() == 3);
}

TEST_CASE("a run without steps or recording is a page too") {
    report::Page page;
    json const   data = data_of(report::html(page));
    CHECK(data.at("metrics").at("loss").empty());
    CHECK(data.at("ranks").empty());
    CHECK(data.at("collectives").empty());
}

TEST_CASE("a browser shows the page without an error, with the right numbers") {
    if (browser().empty()) {
        MESSAGE("no browser here: skipped");
        return;
    }
    auto const [dom, log] = shown(report::html(example()));
    auto const& console   = log;  // clang 14 lets no lambda capture a structured binding, and messages are lambdas
    INFO(console);
    CHECK(console.find("CONSOLE") == console.npos);  // where errors of a script go
    CHECK(count(dom, "<title>a &lt;run&gt; &amp; \"more\"</title>") == 1);
    CHECK(count(dom, "it ended &lt;/script&gt;") >= 1);
    CHECK(count(dom, "rank 1 came last in 2 of 3 steps") >= 1);
    CHECK(dom.find("12.3 k") != dom.npos);
    // The average leaves out the first step.
    CHECK(dom.find("data-ms=\"6\"") != dom.npos);
    CHECK(dom.find(">6.00 ms<") != dom.npos);
    CHECK(dom.find(">60.0 %<") != dom.npos);
    CHECK(dom.find(">10.00 ms<") != dom.npos);
    // Two ranks, one step: one slice each for what they did.
    CHECK(count(dom, "data-label=\"forward h.0 &quot;<&amp;>&quot;\"") +
              count(dom, "data-label=\"forward h.0 &quot;&lt;&amp;&gt;&quot;\"") ==
          2);
    CHECK(count(dom, "data-label=\"Reduction bucket 0\"") == 2);
    CHECK(count(dom, "data-label=\"Reduction wait bucket 0\"") == 2);
    CHECK(count(dom, "data-label=\"step") == 0);
    CHECK(count(dom, "forward peak") == 1);
    CHECK(count(dom, "backward peak") == 1);

    auto const [empty, said] = shown(report::html({}));
    auto const& complaint    = said;
    INFO(complaint);
    CHECK(complaint.find("CONSOLE") == complaint.npos);
    CHECK(empty.find("No step was recorded.") != empty.npos);
}

}  // namespace page_test
