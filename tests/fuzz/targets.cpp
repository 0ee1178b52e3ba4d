#include <array>

#include "target.hpp"

namespace lockstep::fuzz {

Target const* find_target(std::string_view name) noexcept {
    static constexpr std::array targets{Target{"checkpoint", take_checkpoint},
                                        Target{"checkpoint_index", take_checkpoint_index},
                                        Target{"escape", take_escape},
                                        Target{"flags", take_flags},
                                        Target{"hugging_face_config", take_hugging_face_config},
                                        Target{"hugging_face_index", take_hugging_face_index},
                                        Target{"hugging_face_weights", take_hugging_face_weights},
                                        Target{"json", take_json},
                                        Target{"safetensors", take_safetensors},
                                        Target{"tokens", take_tokens}};
    for (Target const& target : targets)
        if (target.name == name) return &target;
    return nullptr;
}

}  // namespace lockstep::fuzz
