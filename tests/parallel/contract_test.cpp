// Near misses of the contracts of strategies and communicators, and strategies over a communicator that knows no MPI.

#include <doctest/doctest.h>

#include "../train/scripted_model.hpp"
#include "lockstep/optim/sgd.hpp"
#include "lockstep/parallel/hybrid_sharded.hpp"
#include "lockstep/parallel/replicated.hpp"
#include "lockstep/parallel/sharded.hpp"
#include "lockstep/parallel/sharded_optimizer.hpp"
#include "lockstep/parallel/single.hpp"
#include "lockstep/train/trainer.hpp"
#include "lone_communicator.hpp"

#ifdef MPI_VERSION
#error "the rooms of this test must not include MPI"
#endif

namespace contract_test {

using namespace lockstep;
using namespace lockstep::parallel;

using Compute = precision::Fp32;
using Storage = tensor::ArenaStorage;
using Bound   = Single::Bound<Compute, Storage>;

// Communicators: each lacks one thing.
struct NoSize : LoneCommunicator {
    void size() const {}
};
struct NoDuplicate : LoneCommunicator {};  // duplicates into another type
struct NoReduction : LoneCommunicator {
    NoReduction duplicate() const { return {}; }
    template <class T>
    int reduction(std::vector<Range> const&, comm::Wire, comm::Reduction, int) const;
};
struct NoGather : LoneCommunicator {
    NoGather duplicate() const { return {}; }
    template <class T>
    Pending all_gather(std::vector<Range> const&, int, comm::Reduction) const;  // knows no window
};
struct NoEngine : LoneCommunicator {
    using Engine = int;
    NoEngine duplicate() const { return {}; }
};
struct SumNeverAdvances : LoneCommunicator {
    struct Waits {
        void wait() {}
    };
    SumNeverAdvances duplicate() const { return {}; }
    Waits            start_sum(std::span<std::int64_t>) const { return {}; }
};
struct NoSum : LoneCommunicator {
    NoSum duplicate() const { return {}; }
    void  start_sum(std::span<std::int64_t>) const {}
};
struct NoValues : LoneCommunicator {
    NoValues      duplicate() const { return {}; }
    std::uint64_t gather_values(std::uint64_t value) const { return value; }
};

struct NoSplit : LoneCommunicator {};  // splits into another type

static_assert(communicator<LoneCommunicator> && splits<LoneCommunicator> && !splits<NoSplit>);
static_assert(operation<LoneCommunicator::Gather<float>> && !operation<LoneCommunicator::Pending>);
static_assert(!ranks_itself<NoSize> && !communicator<NoSize>);
static_assert(!duplicates<NoDuplicate> && !communicator<NoDuplicate>);
static_assert(!makes_operations<NoReduction> && !communicator<NoReduction>);
static_assert(!makes_operations<NoGather> && !communicator<NoGather>);
static_assert(!names_engine<NoEngine> && !communicator<NoEngine>);
static_assert(!agrees<SumNeverAdvances> && !communicator<SumNeverAdvances>);
static_assert(!agrees<NoSum> && !communicator<NoSum>);
static_assert(!agrees<NoValues> && !communicator<NoValues>);

// Strategies at work: each lacks one verb.
struct NeverAcquires : Bound {
    void acquire(std::size_t, Phase) = delete;
};
struct AcquiresAnotherType : Bound {
    Weights<double> acquire(std::size_t, Phase);
};
struct NeverReleases : Bound {
    void release(std::size_t, Phase) = delete;
};
struct NoGradients : Bound {
    std::span<float const> gradients(std::size_t);
};
struct NeverReduces : Bound {
    void reduce(state::BucketIndex) = delete;
};
struct NoBuckets : Bound {
    void buckets() const {}
};
struct NeverSaysWhen : Bound {
    void reduces_each_micro_step() const {}
};
struct NeverWaits : Bound {
    void wait() = delete;
};
struct OwnsNothing : Bound {
    Range owned(std::size_t);
};
struct NeverSaysHowManyShards : Bound {
    void shards() const {}
};
struct NeverPublishes : Bound {
    void publish() = delete;
};
struct NeverAssembles : Bound {
    void assemble(std::size_t, std::span<float>) = delete;
};
struct NeverAgrees : Bound {
    void start_sum(std::span<std::int64_t>) {}
};
struct CountsNothing : Bound {
    void bytes_sent() const {}
};

struct HidesProgress : Bound {
    void progress() const {}
};

static_assert(bound_strategy<Bound, Compute>);
static_assert(!agrees_on<HidesProgress> && !bound_strategy<HidesProgress, Compute>);
static_assert(!acquires<NeverAcquires, Compute> && !bound_strategy<NeverAcquires, Compute>);
static_assert(!acquires<AcquiresAnotherType, Compute> && !bound_strategy<AcquiresAnotherType, Compute>);
static_assert(!releases<NeverReleases> && !bound_strategy<NeverReleases, Compute>);
static_assert(!collects_gradients<NoGradients, Compute> && !bound_strategy<NoGradients, Compute>);
static_assert(!reduces<NeverReduces> && !bound_strategy<NeverReduces, Compute>);
static_assert(!reduces<NoBuckets> && !bound_strategy<NoBuckets, Compute>);
static_assert(!reduces<NeverSaysWhen> && !bound_strategy<NeverSaysWhen, Compute>);
static_assert(!waits<NeverWaits> && !bound_strategy<NeverWaits, Compute>);
static_assert(!owns<OwnsNothing, Compute> && !bound_strategy<OwnsNothing, Compute>);
static_assert(!owns<NeverSaysHowManyShards, Compute> && !bound_strategy<NeverSaysHowManyShards, Compute>);
static_assert(!publishes<NeverPublishes> && !bound_strategy<NeverPublishes, Compute>);
static_assert(!assembles<NeverAssembles, Compute> && !bound_strategy<NeverAssembles, Compute>);
static_assert(!agrees_on<NeverAgrees> && !bound_strategy<NeverAgrees, Compute>);
static_assert(!agrees_on<CountsNothing> && !bound_strategy<CountsNothing, Compute>);

struct SaysNothingOfShards {
    template <class P, class S>
    using Bound = Single::Bound<P, S>;
};
struct NotBound {
    static constexpr bool shards_parameters = false;
};
static_assert(strategy<Single> && strategy<Replicated<LoneCommunicator>> && strategy<Sharded<LoneCommunicator>>);
static_assert(strategy<ShardedOptimizer<LoneCommunicator>> && strategy<HybridSharded<LoneCommunicator>>);
static_assert(strategy<Sharded<LoneCommunicator>, precision::Bf16>);
static_assert(!declares_sharding<SaysNothingOfShards> && !strategy<SaysNothingOfShards>);
static_assert(!strategy<NotBound>);

/// Three steps, two micro-steps each, of the scripted model.
template <class Strategy>
std::vector<float> trained(typename Strategy::Communicator const& communicator, Options const& options) {
    Trainer<Scripted<Storage>, Compute, optim::Sgd, Strategy> trainer({.layers = 2, .dim = 3, .vocab = 4, .sequence = 4},
                                                                      optim::Sgd{.momentum = 0.9}, communicator,
                                                                      {.micro_batch = 1, .threads = 1, .strategy = options});
    std::vector<std::int32_t> const                           tokens{0, 5, 9, 3, 7, 7, 1, 2}, labels{3, -2, 7, 1, 4, -1, 2, 9};
    for (int s = 0; s < 3; ++s) trainer.step({.sequences = 2, .length = 4, .first_sample = 0, .tokens = tokens, .labels = labels}, 0.1);
    std::vector<float> weights;
    for (std::size_t u = 0; u < 3; ++u)
        weights.insert(weights.end(), trainer.masters().values(u).begin(), trainer.masters().values(u).end());
    return weights;
}

TEST_CASE("strategies train over a communicator that knows no MPI, to the bits of Single") {
    auto const expected = trained<Single>({}, {});
    CHECK(expected[0] != 1);
    for (auto const progress : {comm::Progress::automatic, comm::Progress::inside, comm::Progress::thread})
        for (bool const overlap : {true, false})
            for (auto const reshard : {Reshard::always, Reshard::never, Reshard::keep_last}) {
                Options const any{.bucket_bytes = 0, .reshard = reshard, .overlap = overlap, .progress = progress};
                CHECK(trained<Replicated<LoneCommunicator>>({}, any) == expected);
                CHECK(trained<ShardedOptimizer<LoneCommunicator>>({}, any) == expected);
                Options local    = any;
                local.accumulate = Accumulate::local;
                CHECK(trained<Sharded<LoneCommunicator>>({}, local) == expected);
                Options ahead  = any;
                ahead.prefetch = 2;
                CHECK(trained<Sharded<LoneCommunicator>>({}, ahead) == expected);
                CHECK(trained<HybridSharded<LoneCommunicator>>({}, ahead) == expected);
            }
}

}  // namespace contract_test
