// What strategies refuse of a communicator, one section at a time.

#include "lockstep/parallel/hybrid_sharded.hpp"
#include "lockstep/tensor/arena_storage.hpp"
#include "lone_communicator.hpp"

namespace {

using namespace lockstep::parallel;

struct NoSize : LoneCommunicator {
    void size() const {}
};
struct NoSplit : LoneCommunicator {
    NoSplit duplicate() const { return {}; }
    void    split(int, int) const {}
};

template <class Strategy>
constexpr std::size_t at_work = sizeof(typename Strategy::template Bound<lockstep::precision::Fp32, lockstep::tensor::ArenaStorage>);

}  // namespace

#if defined(BAD_COMMUNICATOR)
static_assert(at_work<HybridSharded<NoSize>> > 0);
#elif defined(CANNOT_SPLIT)
static_assert(at_work<HybridSharded<NoSplit>> > 0);
#else
static_assert(at_work<HybridSharded<LoneCommunicator>> > 0);
#endif
