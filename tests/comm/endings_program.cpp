// A program that ends in the way that its first argument names. endings_test.cpp runs it on several ranks.

#include <chrono>
#include <cstddef>
#include <cstdio>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "lockstep/comm/environment.hpp"
#include "lockstep/tensor/booked_memory.hpp"

using namespace lockstep;

namespace {

int body(comm::Environment& mpi, std::string_view ending) {
    comm::Communicator const& world = mpi.world();
    int const                 rank  = world.rank();
    if (ending == "alike") input_error("--batch: expected a multiple of 3, found 7");
    if (ending == "apart") input_error("shard ", rank, " is missing");
    if (ending == "one" && rank == 1) training_error("the loss of this rank is not finite");
    if (ending == "in_flight" && rank == 1) {
        std::vector<float>     buffer(static_cast<std::size_t>(3 * world.size()), 1.0f);
        auto                   sums   = world.ordered_reduction(comm::equal_parts(3, world.size()), comm::Wire::fp32, 0);
        auto                   gather = world.all_gather<float>(comm::equal_parts(3, world.size()), 0);
        std::vector<std::byte> scratch(sums.scratch_bytes());
        sums.start(buffer, {}, false, comm::Result::gathered, scratch);
        gather.start(buffer);
        comm::Request const barrier = world.start_barrier();
        training_error("the loss of this rank is not finite");
    }
    if (ending == "in_flight") world.duplicate();  // rank 1 never comes
    if (ending == "one_at_the_end" && rank == 1) training_error("the loss of this rank is not finite");
    if (ending == "code") return rank == 1 ? 4 : 0;
    if (ending == "left" && rank == 1) return 0;
    if (ending == "left_in_groups") {
        if (rank == 1) return 0;
        world.duplicate();
    }
    if (ending == "late" && rank == 0) std::this_thread::sleep_for(std::chrono::seconds(1));  // the others have ended
    if (ending == "late") return 0;
    if (ending == "no_memory") tensor::BookedBlock(std::size_t{1} << 60, observe::Category::optimizer_state);
    if (ending == "strange") input_error("name\xC2\x9B\xE2\x80\xAE\n\xFF, \xC3\xA4");
    if (ending == "bad_alloc") throw std::runtime_error("no room");
    if (ending != "one_at_the_end") world.barrier();
    return 0;
}

}  // namespace

int main(int argc, char** argv) {
    std::string const ending = argv[1];
    if (ending == "unwinding" || ending == "unwinding_alike") {
        try {
            comm::Environment mpi{argc, argv};
            mpi.patience = std::chrono::milliseconds(300);
            if (ending == "unwinding_alike" || mpi.world().rank() == 1) input_error("a sentence for the handler of the program");
            mpi.world().barrier();
        } catch (Error const& error) {
            std::fprintf(stderr, "caught: %s\n", error.what());
            return static_cast<int>(error.fault());
        }
        return 0;
    }
    comm::Environment mpi{argc, argv};
    mpi.patience = std::chrono::milliseconds(300);
    mpi.absence  = std::chrono::milliseconds(600);
    return mpi.run([&] { return body(mpi, ending); });
}
