// Three ranks train a model that does something wrong on rank 1 in step 3: "faults_program <strategy> <progress> <fault>". faults_test.cpp
// runs it.

#include <signal.h>

#include <chrono>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "lockstep/comm/environment.hpp"
#include "lockstep/optim/sgd.hpp"
#include "lockstep/parallel/replicated.hpp"
#include "lockstep/parallel/sharded.hpp"
#include "lockstep/tensor/arena_storage.hpp"
#include "lockstep/train/trainer.hpp"
#include "scripted_model.hpp"

using namespace lockstep;

namespace {

constexpr double timeout = 1;  // seconds

/// What happens where: "stop_forward", "kill_backward", "throw_backward", "stop_wait" and so on.
struct Fault {
    bool        here = false;  // on this rank, in this step
    std::string what, where;

    void strike(std::string_view at) {
        if (!here || at != where) return;
        here = false;
        happen();
    }
    void happen() const {
        std::this_thread::sleep_for(
            std::chrono::milliseconds(400));  // the others hear that it is here, where an engine's thread tells them
        if (what == "stop") ::raise(SIGSTOP);
        if (what == "kill") ::raise(SIGKILL);
        if (what == "throw") throw std::runtime_error("a kernel of rank 1 gave up");
    }
} fault;

struct Strikes {
    static void block(bool backward, std::size_t layer) {
        if (layer == 1) fault.strike(backward ? "backward" : "forward");
    }
};
using Faulty = Interrupted<tensor::ArenaStorage, Strikes>;

template <class Strategy>
int train(comm::Environment& mpi, std::string_view policy) {
    comm::Communicator const& world = mpi.world();
    TrainerOptions            options{.max_norm = 0, .threads = 1};
    options.strategy.timeout  = timeout;
    options.strategy.progress = policy == "thread" ? comm::Progress::thread : comm::Progress::inside;
    using Trained             = Trainer<Faulty, precision::Fp32, optim::Sgd, Strategy>;
    state::ModelSizes const sizes{.layers = 3, .dim = 4, .vocab = 3, .sequence = 64};
    Trained                 trainer(sizes, optim::Sgd{}, world, options);
    std::optional<Trained>  twin;
    if (fault.what == "twin") twin.emplace(sizes, optim::Sgd{}, world, options);

    std::vector<std::int32_t> const tokens{world.rank()}, labels{1};
    data::Batch const               batch{
                      .sequences = 1, .length = 1, .first_sample = static_cast<std::size_t>(world.rank()), .tokens = tokens, .labels = labels};
    for (int step = 1; step <= 5; ++step) {
        fault.here = world.rank() == 1 && step == 3;
        if (fault.where == "wait" && step == 3) {
            if (world.rank() == 0) std::this_thread::sleep_for(std::chrono::milliseconds(900));  // rank 1 waits for it
            if (fault.here)
                std::thread([] {
                    std::this_thread::sleep_for(std::chrono::milliseconds(300));
                    fault.happen();
                }).detach();
        }
        if (fault.here && fault.what == "skip") continue;
        if (fault.here && fault.what == "other") {
            trainer.check_replicas();
            continue;
        }
        if (fault.what == "size" && step == 3) {
            std::size_t const        part = fault.here ? 11 : 10;
            std::vector<float>       all(3 * part);
            std::vector<Range> const parts{{0, part}, {part, 2 * part}, {2 * part, 3 * part}};
            world.with_timeout(timeout).all_gather(all, parts);
        }
        if (fault.what == "apart" && step == 3) {
            if (fault.here) std::this_thread::sleep_for(std::chrono::seconds(20));
            world.with_timeout(timeout).gather_values(1);
        }
        if (twin) (fault.here ? trainer : *twin).step(batch, 0.01);
        (fault.here && twin ? *twin : trainer).step(batch, 0.01);
    }
    return 0;
}

}  // namespace

int main(int argc, char** argv) {
    std::string const strategy = argv[1], policy = argv[2], wanted = argv[3];
    std::size_t const cut = wanted.find('_');
    fault.what            = wanted.substr(0, cut);
    fault.where           = cut == std::string::npos ? "" : wanted.substr(cut + 1);
    comm::Environment mpi{argc, argv};
    mpi.patience = std::chrono::milliseconds(1500);  // beside other tests all must come to their report
    mpi.absence  = std::chrono::milliseconds(1000);
    return mpi.run(
        [&] { return strategy == "sharded" ? train<parallel::Sharded<>>(mpi, policy) : train<parallel::Replicated<>>(mpi, policy); });
}
