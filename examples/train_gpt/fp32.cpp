#include "make_trainer.hpp"

std::unique_ptr<train_gpt::AnyTrainer> train_gpt::make_fp32_trainer(Settings const& settings, lockstep::comm::Communicator const& world) {
    return make_trainer<lockstep::precision::Fp32>(settings, world);
}
