#pragma once
// What a run asks of its machine: the peak that it is measured against, a terminal.

#include <cstdint>
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

/// Text with what disturbs a terminal escaped, or ids.
void print_sample(std::vector<std::int32_t> const& tokens, bool text);

/// Says on standard error where part of standard output is lost, unless its reader has left. The run is worth more than what it says.
void report_lost_output();

}  // namespace train_gpt
