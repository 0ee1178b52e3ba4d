// A rank that joins the others, finds nothing wrong with its flags, and is not heard of again.

#include <chrono>
#include <thread>

#include "lockstep/comm/environment.hpp"
#include "lockstep/core/config.hpp"
#include "lockstep/train/agreement.hpp"

int main(int argc, char** argv) {
    lockstep::comm::Environment mpi(argc, argv);
    return mpi.run([&] {
        lockstep::agree(mpi.world(), std::vector<lockstep::Setting>{{"lockstep", LOCKSTEP_VERSION}}, "");
        lockstep::together(mpi.world(), [] {});
        std::this_thread::sleep_for(std::chrono::seconds(60));
        return 0;
    });
}
