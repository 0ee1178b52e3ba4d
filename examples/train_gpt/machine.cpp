#include "machine.hpp"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <string>

#include "lockstep/core/error.hpp"
#include "lockstep/data/tokenizer.hpp"
#include "lockstep/kernel/peak.hpp"

namespace train_gpt {

Processor measure_processor(lockstep::comm::Communicator const& world, int threads) {
    lockstep::runtime::Threads pool(threads);
    double                     peak = pool.run([] { return lockstep::kernel::measure_peak_flops(); });
    world.all_reduce(std::span(&peak, 1));
    return {peak, threads};
}

void prepare_directory(std::string const& directory) {
    std::error_code failed;
    std::filesystem::create_directories(directory, failed);
    if (failed) lockstep::input_error("--export ", directory, ": the directory cannot be made: ", failed.message());
    std::string const probe = directory + "/.writable";
    std::FILE* const  file  = std::fopen(probe.c_str(), "wb");
    if (file == nullptr) lockstep::input_error("--export ", directory, ": expected a directory that can be written to, found one that cannot");
    std::fclose(file);
    std::filesystem::remove(probe, failed);
}

void print_sample(std::vector<std::int32_t> const& tokens, bool text) {
    std::printf("\nsample\n");
    if (text) {
        std::string const shown = lockstep::data::ByteTokenizer::decode(tokens);
        std::fwrite(shown.data(), 1, shown.size(), stdout);
    } else {
        for (std::int32_t token : tokens) std::printf("%d ", token);
    }
    std::printf("\n");
}

}  // namespace train_gpt
