#include "machine.hpp"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <string>

#include "lockstep/data/tokenizer.hpp"
#include "lockstep/io/file.hpp"
#include "lockstep/kernel/peak.hpp"

namespace train_gpt {

Processor measure_processor(lockstep::comm::Communicator const& world, int threads, Precision precision) {
    lockstep::runtime::Threads pool(threads);

    double peak = pool.run([&] {
        return precision == Precision::bf16 ? lockstep::kernel::measure_peak_flops<lockstep::precision::bfloat16>()
                                            : lockstep::kernel::measure_peak_flops<float>();
    });
    world.all_reduce(std::span(&peak, 1));
    return {peak, threads};
}

void check_export_place(std::string const& directory) {
    lockstep::io::NewDirectory const made(directory);
    for (char const* file : {"config.json", "model.safetensors"})
        lockstep::io::ReplacingFile const unfinished(std::filesystem::path(directory) / file);
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
