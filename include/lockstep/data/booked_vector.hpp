#pragma once
// A vector whose memory is booked in the ledger under `data`.

#include <vector>

#include "lockstep/tensor/booked_memory.hpp"

namespace lockstep::data {

template <class T>
using BookedVector = std::vector<T, tensor::BookedAllocator<T, observe::Category::data>>;

}  // namespace lockstep::data
