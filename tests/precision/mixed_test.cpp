#include "lockstep/precision/mixed.hpp"

#include <doctest/doctest.h>

#include <type_traits>

namespace mixed_test {

using namespace lockstep::precision;

// Near misses: each lacks one thing of the contract.

struct Complete {
    using compute = bfloat16;
    using master  = float;
    using reduce  = bfloat16;
    using scaling = Unscaled;
};
struct NoCompute {
    using master  = float;
    using reduce  = float;
    using scaling = Unscaled;
};
struct ComputesInIntegers : Complete {
    using compute = int;
};
struct NoMaster {
    using compute = float;
    using reduce  = float;
    using scaling = Unscaled;
};
struct MasterOfHalfWidth : Complete {
    using master = bfloat16;
};
struct NoWire {
    using compute = float;
    using master  = float;
    using scaling = Unscaled;
};
struct WireOfBytes : Complete {
    using reduce = char;
};
struct NoScaling {
    using compute = float;
    using master  = float;
    using reduce  = float;
};
struct ScalingWithoutAnswer : Complete {
    struct scaling {};
};

static_assert(precision<Complete>);
static_assert(!names_compute_element<NoCompute> && !precision<NoCompute>);
static_assert(!names_compute_element<ComputesInIntegers> && !precision<ComputesInIntegers>);
static_assert(!names_master_element<NoMaster> && !precision<NoMaster>);
static_assert(!names_master_element<MasterOfHalfWidth> && !precision<MasterOfHalfWidth>);
static_assert(!names_wire_element<NoWire> && !precision<NoWire>);
static_assert(!names_wire_element<WireOfBytes> && !precision<WireOfBytes>);
static_assert(!names_scaling<NoScaling> && !precision<NoScaling>);
static_assert(!names_scaling<ScalingWithoutAnswer> && !precision<ScalingWithoutAnswer>);
static_assert(!precision<float>);

TEST_CASE("the named policies keep masters in fp32, and only fp16 scales its loss") {
    CHECK(std::is_same_v<Fp32::compute, float>);
    CHECK(std::is_same_v<Bf16::compute, bfloat16>);
    CHECK(std::is_same_v<Fp16::compute, float16>);
    CHECK(std::is_same_v<Bf16::master, float>);
    CHECK(std::is_same_v<Fp16::master, float>);
    CHECK(std::is_same_v<Bf16::reduce, float>);
    CHECK(Fp16::scaling::dynamic);
    CHECK(!Bf16::scaling::dynamic);
    CHECK(!Fp32::scaling::dynamic);
    CHECK(std::is_same_v<Mixed<bfloat16, float, bfloat16>::reduce, bfloat16>);
}

TEST_CASE("sums of half-width types are accumulated in float") {
    CHECK(std::is_same_v<accumulator<bfloat16>, float>);
    CHECK(std::is_same_v<accumulator<float16>, float>);
    CHECK(std::is_same_v<accumulator<float>, float>);
    CHECK(std::is_same_v<accumulator<double>, double>);
}

}  // namespace mixed_test
