// Policies that a trainer refuses, each by its own sentence.

#include "../parallel/lone_communicator.hpp"
#include "lockstep/optim/sgd.hpp"
#include "lockstep/parallel/replicated.hpp"
#include "lockstep/parallel/sharded.hpp"
#include "lockstep/tensor/arena_storage.hpp"
#include "lockstep/train/trainer.hpp"
#include "scripted_model.hpp"

namespace {

using Model = Scripted<lockstep::tensor::ArenaStorage>;
using lockstep::optim::Sgd;
using lockstep::parallel::Replicated;
using lockstep::parallel::Single;
using lockstep::precision::Fp32;

struct NoMaster {  // names no master, reduce and scaling
    using compute = float;
};
struct ListsNothing : Model {  // units are not to be seen
    using Model::Model;

private:
    using Model::units;
};
struct UpdateMayThrow {
    static constexpr std::size_t state_slots = 0;
    template <class T>
    void update(lockstep::optim::Slice<T>, lockstep::optim::Slots<UpdateMayThrow, T>, lockstep::optim::StepInfo) const {}
};
struct WholeTensors {  // does not say that it may be cut anywhere
    static constexpr std::size_t state_slots = 0;
    template <class T>
    void update(lockstep::optim::Slice<T>, lockstep::optim::Slots<WholeTensors, T>, lockstep::optim::StepInfo) const noexcept {}
};
struct NeverPublishes {
    using Communicator                      = lockstep::parallel::Alone;
    static constexpr bool shards_parameters = false;
    template <class P, class Storage>
    class Bound : public Single::Bound<P, Storage> {
    public:
        using Single::Bound<P, Storage>::Bound;
        void publish() = delete;
    };
};
/// Shards on paper: nothing else of a communicator is needed for the refusal.
struct AloneSharded : Single {
    static constexpr bool shards_parameters = true;
};

}  // namespace

#if defined(BAD_PRECISION)
static_assert(sizeof(lockstep::Trainer<Model, NoMaster, Sgd, Single>) > 0);
#elif defined(BAD_MODEL)
static_assert(sizeof(lockstep::Trainer<ListsNothing, Fp32, Sgd, Single>) > 0);
#elif defined(BAD_OPTIMIZER)
static_assert(sizeof(lockstep::Trainer<Model, Fp32, UpdateMayThrow, Single>) > 0);
#elif defined(BAD_STRATEGY)
static_assert(sizeof(lockstep::Trainer<Model, Fp32, Sgd, NeverPublishes>) > 0);
#elif defined(COMMUNICATOR_FORGOTTEN)
lockstep::Trainer<Model, Fp32, Sgd, Replicated<LoneCommunicator>> const trainer{lockstep::state::ModelSizes{}, Sgd{}, {.threads = 1}};
#elif defined(COMMUNICATOR_SUPERFLUOUS)
lockstep::Trainer<Model, Fp32, Sgd, Single> const trainer{lockstep::state::ModelSizes{}, Sgd{}, LoneCommunicator{}, {.threads = 1}};
#elif defined(NOT_ELEMENTWISE)
static_assert(sizeof(lockstep::Trainer<Model, Fp32, WholeTensors, AloneSharded>) > 0);
#else
static_assert(sizeof(lockstep::Trainer<Model, Fp32, Sgd, AloneSharded>) > 0);
static_assert(sizeof(lockstep::Trainer<Model, Fp32, WholeTensors, Single>) > 0);
lockstep::Trainer<Model, Fp32, Sgd, Replicated<LoneCommunicator>> const with{lockstep::state::ModelSizes{}, Sgd{}, LoneCommunicator{}};
lockstep::Trainer<Model, Fp32, Sgd, Single> const                       without{lockstep::state::ModelSizes{}, Sgd{}, {.threads = 1}};
#endif
