#include "lockstep/report/page.hpp"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <regex>

#include "example_page.hpp"

namespace page_test {

using namespace lockstep;
using nlohmann::json;
using test::count_of;
using test::data_of;
using test::example_page;

TEST_CASE("the page needs nothing but itself") {
    std::string const html = report::html(example_page());
    CHECK(html.starts_with("<!DOCTYPE html>"));
    for (char const* part : {"src=", "href=", "@import", "url(", "fetch(", "XMLHttpRequest", "import("})
        CHECK_MESSAGE(count_of(html, part) == 0, part);
    std::regex const address("https?://[^\"]*");
    for (auto a = std::sregex_iterator(html.begin(), html.end(), address); a != std::sregex_iterator(); ++a)
        CHECK(a->str() == "http://www.w3.org/2000/svg");  // a name, not a place
    CHECK(count_of(html, "default-src 'none'") == 1);
}

TEST_CASE("nothing that a run says becomes markup or script") {
    std::string const html = report::html(example_page());
    CHECK(count_of(html, "<script") == 2);
    CHECK(count_of(html, "</script>") == 2);
    CHECK(html.find("<title>a &lt;run&gt; &amp; &quot;more&quot;</title>") != html.npos);
    json const data = data_of(html);
    CHECK(data.at("subtitle") == example_page().subtitle);
    CHECK(data.at("about").at(0) == json::array({"model", "gpt2 <b>"}));
    CHECK(data.at("units").at(1) == "h.0 \"<&>\"");
}

TEST_CASE("the page holds the numbers of the run, and null for what is not one") {
    json const  data = data_of(report::html(example_page()));
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

}  // namespace page_test
