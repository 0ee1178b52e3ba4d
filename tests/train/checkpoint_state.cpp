// State that no checkpoint can hold is refused by a sentence.

#include "lockstep/train/checkpoint_state.hpp"

#include "lockstep/optim/sgd.hpp"
#include "lockstep/tensor/arena_storage.hpp"
#include "lockstep/train/trainer.hpp"
#include "scripted_model.hpp"

namespace {

struct LongState {
    static constexpr std::size_t state_slots = 1;
    template <class T>
    using state_element = long double;
    template <class T>
    void update(lockstep::optim::Slice<T>, lockstep::optim::Slots<LongState, T>, lockstep::optim::StepInfo) const noexcept {}
};

#if defined(NO_FILE_TYPE)
using Optimizer = LongState;
#else
using Optimizer = lockstep::optim::Sgd;
#endif
using Trainer =
    lockstep::Trainer<Scripted<lockstep::tensor::ArenaStorage>, lockstep::precision::Fp32, Optimizer, lockstep::parallel::Single>;

[[maybe_unused]] auto parts_of(Trainer& trainer) { return lockstep::stored_parts(trainer); }

}  // namespace
