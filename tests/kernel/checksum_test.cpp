#include <doctest/doctest.h>

#include <bit>
#include <set>
#include <span>

#include "lockstep/kernel/checksum.hpp"
#include "tables.hpp"

namespace checksum_test {

using namespace lockstep;

TEST_CASE_TEMPLATE("checksums of shards add up to that of the whole", T, float, test::bfloat16, test::float16, double) {
    auto const          table  = test::random_table<T>(1, 50001, 1);
    std::span const     values = table.view().row(0);
    std::uint64_t const whole  = kernel::checksum(values, 100);
    for (std::size_t cut : {std::size_t{0}, std::size_t{1}, std::size_t{20000}, values.size()})
        CHECK(kernel::checksum(values.first(cut), 100) + kernel::checksum(values.subspan(cut), 100 + cut) == whole);
    for (int threads : {1, 2, 3}) CHECK(runtime::Threads(threads).run([&] { return kernel::checksum(values, 100); }) == whole);
    CHECK(kernel::checksum(std::span<T>{}, 5) == 0);
}

TEST_CASE("the checksum of bytes on one thread is that of the elements") {
    std::vector<float> values(1000);
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i) - 400;
    std::span<float const> const all(values);
    std::uint64_t                defined = 0;
    for (std::size_t i = 0; i < values.size(); ++i) defined += kernel::mix64(7 + i, std::bit_cast<std::uint32_t>(values[i]));
    CHECK(kernel::mixed_sum(4, std::as_bytes(all), 7) == defined);
    CHECK(kernel::mixed_sum(4, std::as_bytes(all), 7) == kernel::checksum(all, 7));
    CHECK(kernel::mixed_sum(4, std::as_bytes(all.first(300)), 7) + kernel::mixed_sum(4, std::as_bytes(all.subspan(300)), 307) ==
          kernel::checksum(all, 7));
    std::vector<precision::bfloat16> const narrow{precision::bfloat16(1.5f), precision::bfloat16(-2.0f)};
    CHECK(kernel::mixed_sum(2, std::as_bytes(std::span(narrow)), 0) == kernel::checksum(std::span(narrow), 0));
}

TEST_CASE("each flipped bit, exchange and shift changes the checksum") {
    std::vector<float>      values(64, 1.0f);
    std::set<std::uint64_t> seen{kernel::checksum(std::span(values), 0)};
    for (std::size_t i = 0; i < 64; ++i)
        for (std::uint32_t bit = 0; bit < 32; ++bit) {
            auto changed = values;
            changed[i]   = std::bit_cast<float>(std::bit_cast<std::uint32_t>(1.0f) ^ (1u << bit));
            seen.insert(kernel::checksum(std::span(changed), 0));
        }
    CHECK(seen.size() == 1 + 64 * 32);
    values[3]                  = 2.0f;
    std::uint64_t const before = kernel::checksum(std::span(values), 0);
    CHECK(kernel::checksum(std::span(values), 1) != before);
    std::swap(values[3], values[4]);
    CHECK(kernel::checksum(std::span(values), 0) != before);
    values.assign(64, 0.0f);
    std::uint64_t const zeros = kernel::checksum(std::span(values), 0);
    values[0]                 = -0.0f;
    CHECK(kernel::checksum(std::span(values), 0) != zeros);
}

}  // namespace checksum_test
