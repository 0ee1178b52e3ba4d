// The page as a browser shows it. Skipped where there is none; LOCKSTEP_BROWSER names another one than the usual.

#include <doctest/doctest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <regex>
#include <sstream>
#include <string>
#include <utility>

#include "example_page.hpp"

namespace page_in_browser_test {

using namespace lockstep;
using test::count_of;
using test::example_page;

std::string browser() {
    if (char const* const named = std::getenv("LOCKSTEP_BROWSER")) return named;
    for (char const* const path : {"/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"})
        if (std::filesystem::exists(path)) return path;
    return {};
}

/// What a browser makes of a page.
struct Shown {
    std::string document;  // after the script has run
    std::string log;       // what scripts said on the console, with what the browser says itself

    /// Also where a script ended in an error.
    bool console() const { return count_of(log, "CONSOLE") != 0; }
    bool has(std::string const& part) const { return count_of(document, part) != 0; }

    /// The texts of a table's cells, a line a row.
    std::string table(std::string const& id) const {
        std::size_t const begin = document.find("<table id=\"" + id + "\">"), end = document.find("</table>", begin);
        REQUIRE(begin != document.npos);
        std::string const all = document.substr(begin, end - begin);
        std::regex const  part("</tr>|<td[^>]*>([^<]+)</td>");
        std::string       text, line;
        for (auto p = std::sregex_iterator(all.begin(), all.end(), part); p != std::sregex_iterator(); ++p) {
            if (p->str() != "</tr>")
                line += (line.empty() ? "" : " | ") + p->str(1);
            else if (!line.empty())
                text += std::exchange(line, {}) + '\n';
        }
        return text;
    }
};

Shown shown(std::string const& html) {
    auto const folder = std::filesystem::temp_directory_path() / ("lockstep_page_test_" + std::to_string(::getpid()));
    std::filesystem::create_directories(folder);
    std::ofstream(folder / "page.html") << html;
    std::string const command =
        "timeout 60 " + browser() +
        " --headless --no-sandbox --disable-gpu --disable-dev-shm-usage --enable-logging=stderr --v=0 --window-size=1200,900"
        " --user-data-dir=" +
        (folder / "profile").string() + " --dump-dom file://" + (folder / "page.html").string() + " > " + (folder / "document").string() +
        " 2> " + (folder / "log").string();
    int const         code = std::system(command.c_str());
    std::stringstream document, log;
    document << std::ifstream(folder / "document").rdbuf();
    log << std::ifstream(folder / "log").rdbuf();
    std::filesystem::remove_all(folder);
    INFO(log.str());
    REQUIRE(code == 0);
    return {document.str(), log.str()};
}

bool skipped() {
    if (browser().empty()) MESSAGE("SKIPPED: there is no browser (Debian: chromium)");
    return browser().empty();
}

TEST_CASE("a browser shows the page without an error, with what the run said") {
    if (skipped()) return;
    report::Page page            = example_page();
    page.recording.ranks[1].lost = 312;
    Shown const page_shown       = shown(report::html(page));
    INFO(page_shown.log);
    CHECK_FALSE(page_shown.console());
    CHECK(page_shown.has("<title>a &lt;run&gt; &amp; \"more\"</title>"));
    CHECK(page_shown.has("it ended &lt;/script&gt;"));
    CHECK(page_shown.has("rank 1 came last in 2 of 3 steps"));
    CHECK(page_shown.has(">12.3 k<"));
    CHECK(page_shown.has(">rank 1: 312 events of the recorded steps were overwritten before they could be read: the timeline has holes<"));
    CHECK_FALSE(page_shown.has("rank 0: "));
    // Two ranks, one step: one slice each for what they did.
    CHECK(count_of(page_shown.document, "data-label=\"forward h.0 &quot;<&amp;>&quot;\"") +
              count_of(page_shown.document, "data-label=\"forward h.0 &quot;&lt;&amp;&gt;&quot;\"") ==
          2);
    CHECK(count_of(page_shown.document, "data-label=\"Reduction bucket 0\"") == 2);
    CHECK(count_of(page_shown.document, "data-label=\"Reduction wait bucket 0\"") == 2);
    CHECK_FALSE(page_shown.has("data-label=\"step"));
    CHECK(count_of(page_shown.document, "forward peak") == 1);
    CHECK(count_of(page_shown.document, "backward peak") == 1);
}

TEST_CASE("the tables of the page are those of the steps and of the recording") {
    if (skipped()) return;
    Shown const page = shown(report::html(example_page()));
    CHECK(page.table("decomposition") ==
          "compute | 6.00 ms | 60.0 %\n"  // without the first step
          "waiting for parameters | 500.0 µs | 5.0 %\n"
          "waiting for gradients | 1.25 ms | 12.5 %\n"
          "late peer | 250.0 µs | 2.5 %\n"
          "update | 1.50 ms | 15.0 %\n"
          "data | 100.0 µs | 1.0 %\n"
          "other | 400.0 µs | 4.0 %\n"
          "step | 10.00 ms | 100.0 %\n"
          "wire busy | 3.00 ms | 30.0 %\n"
          "of this hidden | 1.25 ms | 12.5 %\n");
    // A reduction from 402 to 500 us, waited for from 360 to 501; meanwhile, from 320 to 510, a sum.
    CHECK(page.table("collectives") ==
          "AllGather h.0 \"&lt;&amp;&gt;\" | 1 | 2.57 MiB | 27.0 µs | 100 GB/s | 27.0 µs | 2.0 µs | 0 %\n"
          "Reduction bucket 0 | 1 | 977 KiB | 98.0 µs | 10.2 GB/s | 98.0 µs | 42.0 µs | 0 %\n"
          "Sum | 1 | 8 B | 190.0 µs | 42.1 kB/s | 141.0 µs | 0 | 26 %\n");
}

TEST_CASE("a browser shows the page of a run without steps, and an error of a script would be seen") {
    if (skipped()) return;
    Shown const empty = shown(report::html({}));
    INFO(empty.log);
    CHECK_FALSE(empty.console());
    CHECK(empty.has("No step was recorded."));
    CHECK(shown("<!DOCTYPE html><script>not_there();</script>").console());
}

}  // namespace page_in_browser_test
