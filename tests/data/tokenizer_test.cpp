#include <doctest/doctest.h>

#include <string>

#include "lockstep/data/tokenizer.hpp"

namespace tokenizer_test {

using lockstep::data::ByteTokenizer;

TEST_CASE("every byte becomes its number and comes back") {
    std::string all;
    for (int byte = 0; byte < 256; ++byte) all += static_cast<char>(byte);
    auto const ids = ByteTokenizer::encode(all);
    REQUIRE(ids.size() == ByteTokenizer::vocabulary);
    for (std::size_t i = 0; i < ids.size(); ++i) CHECK(ids[i] == static_cast<int>(i));
    CHECK(ByteTokenizer::decode(ids) == all);
}

TEST_CASE("an id that is no byte is shown as the replacement character") {
    CHECK(ByteTokenizer::decode(std::vector<std::int32_t>{65, 256, -1, 66}) ==
          "A\xEF\xBF\xBD\xEF\xBF\xBD"
          "B");
}

}  // namespace tokenizer_test
