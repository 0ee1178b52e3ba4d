#pragma once
// What a run asks of its machine: the peak that it is measured against, a place for its results, a terminal.

#include <cstdint>
#include <string>
#include <vector>

#include "lockstep/comm/communicator.hpp"
#include "settings.hpp"

namespace train_gpt {

struct Processor {
    double peak_flops = 0;  // FLOP/s in registers, of all threads of all ranks
    int    threads    = 1;  // of a rank
};

/// Measures the unit that the compute type uses, on all ranks at once, for a few milliseconds. Collective.
Processor measure_processor(lockstep::comm::Communicator const& world, int threads, Precision precision);

/// Tries whether weights can be written to the directory, or says why that is impossible. Nothing remains.
void check_export_place(std::string const& directory);

void print_sample(std::vector<std::int32_t> const& tokens, bool text);

}  // namespace train_gpt
