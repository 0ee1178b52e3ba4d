// libFuzzer's way into all targets: --target=NAME chooses one, the other flags are libFuzzer's.

#include <cstdlib>

#include "target.hpp"

namespace {
lockstep::fuzz::Take* take = nullptr;
}

extern "C" int LLVMFuzzerInitialize(int const* argc, char*** argv);
extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size);

int LLVMFuzzerInitialize(int const* argc, char*** argv) {
    constexpr std::string_view flag = "--target=";
    for (int i = 1; i < *argc; ++i)
        if (std::string_view const word = (*argv)[i]; word.starts_with(flag))
            if (auto const* const target = lockstep::fuzz::find_target(word.substr(flag.size()))) take = target->take;
    if (take == nullptr) {
        std::fputs("expected --target=NAME with the name of a folder in tests/fuzz/corpus\n", stderr);
        std::exit(2);
    }
    return 0;
}

int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
    take({reinterpret_cast<char const*>(data), size});
    return 0;
}
