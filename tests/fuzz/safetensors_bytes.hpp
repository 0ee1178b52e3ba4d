#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

namespace lockstep::fuzz {

/// A safetensors file: the length of the header, the header, the data.
inline std::string safetensors_bytes(std::string_view header, std::string_view data) {
    std::uint64_t const length = header.size();
    std::string         bytes(sizeof length, '\0');
    std::memcpy(bytes.data(), &length, sizeof length);
    return bytes.append(header).append(data);
}

}  // namespace lockstep::fuzz
