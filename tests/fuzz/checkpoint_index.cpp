#include "lockstep/io/checkpoint_index.hpp"

#include "target.hpp"

namespace lockstep::fuzz {

/// The index of a checkpoint; one that is accepted can be written and read again.
void take_checkpoint_index(std::string_view bytes) {
    io::CheckpointIndex index;
    if (!accepts("index.json", [&] { index = io::parse_index(bytes, "index.json"); })) return;
    io::CheckpointIndex const again = io::parse_index(io::index_text(index), "again");
    expect(again.facts.position == index.facts.position && again.facts.loss_scale == index.facts.loss_scale, "facts stay as they are");
    expect(again.tensors.size() == index.tensors.size(), "tensors stay as they are");
}

}  // namespace lockstep::fuzz
