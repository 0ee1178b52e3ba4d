#pragma once
// The bits of an element as an unsigned integer.

#include <bit>
#include <cstdint>

#include "lockstep/precision/bfloat16.hpp"
#include "lockstep/precision/float16.hpp"

namespace lockstep::kernel {

constexpr std::uint64_t bits_of(double value) noexcept { return std::bit_cast<std::uint64_t>(value); }
constexpr std::uint32_t bits_of(float value) noexcept { return std::bit_cast<std::uint32_t>(value); }
constexpr std::uint16_t bits_of(precision::bfloat16 value) noexcept { return value.bits; }
constexpr std::uint16_t bits_of(precision::float16 value) noexcept { return value.bits; }

}  // namespace lockstep::kernel
