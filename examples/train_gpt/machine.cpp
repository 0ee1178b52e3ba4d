#include "machine.hpp"

#include <poll.h>
#include <unistd.h>
#include <algorithm>
#include <cstdio>
#include <string>

#include "lockstep/core/escape.hpp"
#include "lockstep/data/tokenizer.hpp"
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

void print_sample(std::vector<std::int32_t> const& tokens, bool text) {
    std::printf("\nsample\n");
    if (text) {
        std::string const shown = lockstep::escaped(lockstep::data::ByteTokenizer::decode(tokens), lockstep::Keep::lines);
        std::fwrite(shown.data(), 1, shown.size(), stdout);
    } else {
        for (std::int32_t token : tokens) std::printf("%d ", token);
    }
    std::printf("\n");
}

void report_lost_output() {
    std::fflush(stdout);
    if (std::ferror(stdout) == 0) return;
    ::pollfd reader{.fd = STDOUT_FILENO, .events = POLLOUT, .revents = 0};
    if (::poll(&reader, 1, 0) > 0 && (reader.revents & POLLERR) != 0) return;  // whoever read it has gone
    std::fprintf(stderr,
                 "standard output: cannot be written, so what the run printed is incomplete; the files that it wrote are complete\n");
}

}  // namespace train_gpt
