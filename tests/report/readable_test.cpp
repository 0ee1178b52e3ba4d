#include <doctest/doctest.h>

#include <limits>

#include "lockstep/report/readable.hpp"

namespace readable_test {

using namespace lockstep::report;

TEST_CASE("bytes are shown in the largest unit that leaves one, with three digits") {
    CHECK(readable_bytes(0) == "0 B");
    CHECK(readable_bytes(1023) == "1023 B");
    CHECK(readable_bytes(1024) == "1.00 KiB");
    CHECK(readable_bytes(1536) == "1.50 KiB");
    CHECK(readable_bytes(25 << 20) == "25.0 MiB");
    CHECK(readable_bytes((std::uint64_t{1} << 20) - 1) == "1.00 MiB");
    CHECK(readable_bytes(std::uint64_t{1023} << 20) == "1023 MiB");
    CHECK(readable_bytes(std::uint64_t{115} << 30) == "115 GiB");
    CHECK(readable_bytes(~std::uint64_t{0}) == "16384 PiB");
}

TEST_CASE("counts are shown in thousands") {
    CHECK(readable_count(0) == "0");
    CHECK(readable_count(999) == "999");
    CHECK(readable_count(999.7) == "1.00 k");
    CHECK(readable_count(12345) == "12.3 k");
    CHECK(readable_count(124439808) == "124 M");
    CHECK(readable_count(9.996e6) == "10.0 M");
    CHECK(readable_count(1.5576e9) == "1.56 G");
    CHECK(readable_count(std::numeric_limits<double>::quiet_NaN()) == "nan");
}

TEST_CASE("durations are shown in two units at most") {
    CHECK(readable_duration(0) == "0.00 s");
    CHECK(readable_duration(0.42) == "0.42 s");
    CHECK(readable_duration(9.999) == "10.0 s");
    CHECK(readable_duration(42.06) == "42.1 s");
    CHECK(readable_duration(59.97) == "1 min 00 s");
    CHECK(readable_duration(185.2) == "3 min 05 s");
    CHECK(readable_duration(3599.7) == "1 h 00 min");
    CHECK(readable_duration(3720) == "1 h 02 min");
    CHECK(readable_duration(3 * 86400 + 4 * 3600 + 5) == "3 d 04 h");
    CHECK(readable_duration(-1) == "-");
    CHECK(readable_duration(std::numeric_limits<double>::infinity()) == "-");
}

TEST_CASE("numbers with fixed decimals survive what is not finite") {
    CHECK(fixed(2.34567, 4) == "2.3457");
    CHECK(fixed(1e300, 0).size() == 301);
    CHECK(fixed(std::numeric_limits<double>::quiet_NaN(), 2) == "nan");
    CHECK(fixed(-std::numeric_limits<double>::infinity(), 2) == "-inf");
}

}  // namespace readable_test
