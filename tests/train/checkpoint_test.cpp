// A trainer that continues from a checkpoint is the trainer that wrote it, on whichever ranks and strategy.

#include <doctest/doctest.h>
#include <pthread.h>
#include <sys/resource.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <limits>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cases.hpp"
#include "lockstep/io/checkpoint_reader.hpp"
#include "lockstep/train/checkpoints.hpp"
#include "lockstep/train/stored_state.hpp"
#include "run.hpp"

namespace checkpoint_test {

namespace fs = std::filesystem;
using lockstep::comm::Communicator;

constexpr lockstep::state::ModelSizes sizes{.layers = 2, .heads = 3, .kv_heads = 3, .dim = 12, .ffn = 20, .vocab = 19, .sequence = 7};

/// A folder of this test's ranks, empty.
fs::path folder(std::string const& name) {
    fs::path const path = "checkpoint_on_" + std::to_string(ranks()) + "_" + name;
    world().barrier();
    if (rank() == 0) fs::remove_all(path);
    world().barrier();
    return path;
}
void remove_folder(fs::path const& path) {
    world().barrier();
    if (rank() == 0) fs::remove_all(path);
}

/// Every stored tensor's bytes.
std::map<std::string, std::vector<std::byte>> contents(fs::path const& path) {
    lockstep::io::CheckpointReader                reader(path);
    std::map<std::string, std::vector<std::byte>> all;
    auto const index = lockstep::io::parse_index(lockstep::io::read_text(reader.name(), 1 << 20), reader.name());
    for (auto const& [name, tensor] : index.tensors) {
        std::size_t const     width = lockstep::io::bytes(tensor.dtype);
        lockstep::Range const whole{0, static_cast<std::size_t>(tensor.elements())};
        auto&                 bytes = all[name];
        bytes.resize(whole.size() * width);
        reader.read(name, std::span(&whole, 1), [&](lockstep::Range range, std::span<std::byte const> found) {
            std::copy(found.begin(), found.end(), bytes.begin() + static_cast<std::ptrdiff_t>(range.begin * width));
        });
    }
    return all;
}

/// A group of ranks with a strategy; Single is one rank.
struct Group {
    Strategy    strategy;
    std::size_t size;
};
/// With LOCKSTEP_EVERY_WAY in the environment every strategy on 1 to all ranks, and every kind of trainer from each to each.
bool               every_way() { return std::getenv("LOCKSTEP_EVERY_WAY") != nullptr; }
std::vector<Group> groups() {
    std::vector<Group> all{{Strategy::single, 1}};
    for (std::size_t size = 1; size <= ranks(); ++size)
        for (Strategy const strategy : strategies) {
            bool const chosen = strategy == Strategy::replicated || strategy == Strategy::sharded || size == ranks() || every_way();
            if (strategy != Strategy::single && chosen) all.push_back({strategy, size});
        }
    return all;
}

/// Runs body(communicator) on the first ranks, the others wait.
template <class Body>
void on_group(Group const& group, Body const& body) {
    bool const         mine = rank() < group.size;
    Communicator const part = world().split(mine ? 0 : 1);
    if (mine) body(part);
    world().barrier();
}

lockstep::data::Batch batch_of(Group const& group, Rows const& rows) {
    return group.strategy == Strategy::single ? rows.all() : rows.part(rank(), group.size);
}

struct Kind {
    char const*                 name;
    Maker*                      make;
    lockstep::state::ModelSizes sizes;
    RunOptions                  options;
    std::size_t                 vocab;
};
std::vector<Kind> kinds() {
    RunOptions tiled{.max_norm = 1, .model = {.dropout = 0.1f}};
    tiled.model.layout = lockstep::state::Layout{4, 3, lockstep::state::TileOrder::columns};
    return {{"gpt2", gpt2_fp32, sizes, {.max_norm = 1, .model = {.dropout = 0.1f}}, 19},
            {"tiles", gpt2_fp32, sizes, tiled, 19},
            {"half", scripted_half_state, scripted_sizes(5, 2, 2), {.loss_scale = {.initial = 64, .interval = 2}}, 9}};  // empty shards
}

TEST_CASE("any number of ranks and any strategy reads what any other wrote, byte for byte") {
    for (Kind const& kind : kinds())
        for (Group const& from : groups()) {
            bool const sometimes =
                from.size != ranks() || from.strategy == Strategy::sharded_optimizer || from.strategy == Strategy::hybrid;
            if (std::string_view(kind.name) != "gpt2" && sometimes && !every_way()) continue;  // enough of these
            auto const                                    saved = folder("from"), again = folder("again");
            std::map<std::string, std::vector<std::byte>> expected;
            double                                        scale = 0;
            on_group(from, [&](Communicator const& part) {
                auto const run = kind.make(from.strategy, kind.sizes, part, kind.options);
                for (std::uint64_t s = 0; s < 3; ++s) run->step(batch_of(from, random_rows(12, 7, kind.vocab, s)), 0.01);
                CHECK(run->save_checkpoint(saved, [] {}).empty());
                scale = run->loss_scale();
                part.barrier();
                expected             = contents(saved);
                auto const  weights  = run->weights();
                std::size_t elements = 0;
                for (auto const& [name, bytes] : expected) elements += name.starts_with("master.") ? bytes.size() / 4 : 0;
                CHECK(elements == weights.size());
            });
            for (Group const& to : groups()) {
                CAPTURE(kind.name);
                CAPTURE(from.size);
                CAPTURE(static_cast<int>(from.strategy));
                CAPTURE(to.size);
                CAPTURE(static_cast<int>(to.strategy));
                on_group(to, [&](Communicator const& part) {
                    auto const run      = kind.make(to.strategy, kind.sizes, part, kind.options);
                    auto const position = run->resume(saved);
                    CHECK(position.next_sample == 300);
                    CHECK(position.skipped_in_a_row == 3);
                    CHECK(run->version() == 3);
                    if (rank() < from.size) CHECK(run->loss_scale() == scale);
                    CHECK(run->save_checkpoint(again, [] {}).empty());
                    part.barrier();
                    if (rank() < from.size) CHECK((contents(again) == expected));
                });
            }
            remove_folder(saved), remove_folder(again);
        }
}

TEST_CASE("a run that continues takes the very steps that the other took, which goes on while it is saved") {
    for (Kind const& kind : kinds())
        for (Strategy const strategy : strategies) {
            Group const group{strategy, strategy == Strategy::single ? 1 : ranks()};
            auto const  saved = folder("exact");
            on_group(group, [&](Communicator const& part) {
                std::vector<double> expected, found;
                auto const          steps = [&](Run& run, std::uint64_t from, std::uint64_t to, std::vector<double>& results) {
                    for (std::uint64_t s = from; s < to; ++s) {
                        auto const result = run.step(batch_of(group, random_rows(12, 7, kind.vocab, s)), 0.01);
                        results.insert(results.end(), {result.loss, result.gradient_norm, result.loss_scale});
                    }
                };
                auto const          run = kind.make(strategy, kind.sizes, part, kind.options);
                std::vector<double> before;
                steps(*run, 0, 3, before);
                CHECK(run->save_checkpoint(saved, [&] { steps(*run, 3, 6, expected); }).empty());
                part.barrier();
                auto const other = kind.make(strategy, kind.sizes, part, kind.options);
                other->resume(saved);
                steps(*other, 3, 6, found);
                CHECK(found == expected);
                CHECK(other->weights() == run->weights());
                CHECK(other->version() == run->version());
            });
            remove_folder(saved);
        }
}

/// The sentence of the error that the body raises.
template <class Body>
std::string raised(Body&& body) {
    try {
        body();
    } catch (lockstep::Error const& error) {
        return error.what();
    }
    return "nothing was raised";
}
bool says(std::string const& sentence, std::string const& part) { return sentence.find(part) != std::string::npos; }

TEST_CASE("what does not fit, or is damaged, is the same error on all ranks") {
    auto const saved = folder("wrong");
    CHECK(gpt2_fp32(Strategy::sharded, sizes, world(), {})->save_checkpoint(saved, [] {}).empty());
    world().barrier();
    auto const refusal = [&](lockstep::state::ModelSizes const& s, RunOptions const& options) {
        return raised([&] { gpt2_fp32(Strategy::sharded, s, world(), options)->resume(saved); });
    };
    auto deeper   = sizes;
    deeper.layers = 3;
    CHECK(says(refusal(deeper, {}), "index.json: expected the tensor \"master.h.2."));
    auto wider  = sizes;
    wider.vocab = 20;
    CHECK(says(refusal(wider, {}), "tensor \"master.wte\": expected shape [20,12], found [19,12]"));
    CHECK(says(refusal(sizes, {.seed = 5}), "expected the seed of this run, 5, found 1337"));
    auto one_headed  = sizes;
    one_headed.heads = one_headed.kv_heads = 1;
    CHECK(says(refusal(one_headed, {}), "index.json: expected a model with heads 1, found "));
    CHECK(says(raised([&] { scripted_half_state(Strategy::replicated, scripted_sizes(5, 2, 2), world(), {})->resume(saved); }),
               "expected the tensor \"master.w\", not found"));
    world().barrier();
    if (rank() == 0) {
        std::fstream file(saved / "step-0000000000" / ("state-00001-of-0000" + std::to_string(ranks()) + ".safetensors"),
                          std::ios::in | std::ios::out | std::ios::binary);
        file.seekp(-3, std::ios::end);
        file.put('\x7f');
    }
    world().barrier();
    CHECK(says(refusal(sizes, {}), "expected the checksum "));
    remove_folder(saved);
}

TEST_CASE("masters that are no finite numbers are refused by tensor and element") {
    using namespace lockstep;
    std::vector<float> values{1, -2, 3, 4};
    auto const         refusal = [&](std::string const& name) {
        StoredPart part;
        part.name = name;
        return raised([&] { lockstep::detail::check_master(part, {10, 14}, std::as_bytes(std::span(values)), "index.json"); });
    };
    CHECK(refusal("master.wte") == "nothing was raised");
    values[2] = std::numeric_limits<float>::infinity();
    CHECK(refusal("master.wte") == "index.json: tensor \"master.wte\": expected finite numbers, found another at element 12");
    values[1] = std::numeric_limits<float>::quiet_NaN();
    CHECK(says(refusal("master.wte"), "found another at element 11"));
    CHECK(refusal("optimizer.1.wte") == "nothing was raised");  // a sum of squares may overflow in a run that goes on
}

/// Lets this process write no file beyond so many bytes.
class FileLimit {
public:
    explicit FileLimit(rlim_t bytes) {
        std::signal(SIGXFSZ, SIG_IGN);
        ::getrlimit(RLIMIT_FSIZE, &before_);
        rlimit now   = before_;
        now.rlim_cur = bytes;
        ::setrlimit(RLIMIT_FSIZE, &now);
    }
    ~FileLimit() { ::setrlimit(RLIMIT_FSIZE, &before_); }

private:
    rlimit before_{};
};

TEST_CASE("a save that one rank cannot write says why on all ranks, leaves nothing, and costs no step") {
    for (Strategy const strategy : {Strategy::replicated, Strategy::sharded}) {
        auto const saved    = folder("full");
        auto const run      = gpt2_fp32(strategy, sizes, world(), {});
        auto const expected = gpt2_fp32(strategy, sizes, world(), {});
        auto const step     = [&](Run& of, std::uint64_t s) { of.step(random_rows(ranks(), 7, 19, s).mine(), 0.01); };
        CHECK(run->save_checkpoint(saved, [] {}).empty());
        step(*run, 0);
        std::string failure;
        {
            std::optional<FileLimit> limit;
            if (rank() == ranks() - 1) limit.emplace(1000);
            failure = run->save_checkpoint(saved, [&] { step(*run, 1); });
        }
        CHECK_MESSAGE(says(failure, ".safetensors: writing failed: File too large"), failure);
        CHECK(says(failure, "rank " + std::to_string(ranks() - 1) + ": ") == (ranks() > 1));
        world().barrier();
        CHECK(fs::exists(saved / "step-0000000000/index.json"));
        CHECK(std::distance(fs::directory_iterator(saved), fs::directory_iterator()) == 2);
        world().barrier();
        CHECK(run->save_checkpoint(saved, [&] { step(*run, 2); }).empty());
        world().barrier();
        CHECK(fs::exists(saved / "step-0000000002/index.json"));
        for (std::uint64_t s = 0; s < 3; ++s) step(*expected, s);
        CHECK(run->weights() == expected->weights());
        remove_folder(saved);
    }
}

/// A trainer without a model: what Checkpoints asks of one.
class Bare {
public:
    explicit Bare(std::size_t exchanges = 1'000'000) : ranks_{exchanges} {}

    /// All ranks, until another exchange ends as where one of them does not answer.
    struct Ranks {
        std::size_t exchanges;

        int                        rank() const { return world().rank(); }
        std::vector<std::uint64_t> gather_values(std::uint64_t value) {
            if (exchanges-- == 0) lockstep::peer_error("waited in vain");
            return world().gather_values(value);
        }
    };
    Ranks&                      strategy() { return ranks_; }
    std::size_t                 ranks() const { return ::ranks(); }
    std::uint64_t               version() const { return 0; }
    lockstep::runtime::Threads& threads() { return threads_; }

private:
    Ranks                      ranks_;
    lockstep::runtime::Threads threads_{1};
};
std::vector<lockstep::StoredPart> stored_parts(Bare&) { return {}; }
lockstep::io::CheckpointFacts     checkpoint_facts(Bare&) {
        lockstep::io::CheckpointFacts facts;
        facts.written_by = "a test";
        return facts;
}

TEST_CASE("a folder that cannot be made, or is gone when it is needed, is an error or a failure of all ranks") {
    auto const saved = folder("blocked");
    if (rank() == 0) std::ofstream(saved) << "a file";
    world().barrier();
    auto const run = gpt2_fp32(Strategy::sharded, sizes, world(), {});
    CHECK(says(raised([&] { run->save_checkpoint(saved, [] {}); }), "cannot be made a directory"));
    CHECK_NOTHROW(run->check_replicas());  // no rank is left behind in a collective
    remove_folder(saved);

    Bare                        bare;
    lockstep::Checkpoints<Bare> checkpoints(bare, {.directory = saved});
    remove_folder(saved);
    CHECK_FALSE(checkpoints.save().has_value());
    auto const result = checkpoints.finish();
    REQUIRE(result.has_value());
    CHECK(result->place.empty());
    CHECK_MESSAGE(says(result->failure, "cannot be made a directory: No such file"), result->failure);
    CHECK_FALSE(says(result->failure, "rank "));
    CHECK_FALSE(checkpoints.saving());
}

/// Lets this process start no thread: none of its stacks has room.
class NoThreads {
public:
    NoThreads() {
        ::pthread_attr_init(&before_);
        ::pthread_getattr_default_np(&before_);
        ::pthread_attr_t now = {};
        ::pthread_attr_init(&now);
        ::pthread_attr_setstacksize(&now, std::size_t{1} << 50);
        ::pthread_setattr_default_np(&now);
        ::pthread_attr_destroy(&now);
    }
    ~NoThreads() {
        ::pthread_setattr_default_np(&before_);
        ::pthread_attr_destroy(&before_);
    }

private:
    ::pthread_attr_t before_ = {};
};

TEST_CASE("a rank that may not start a thread is a save that failed") {
    auto const                  saved = folder("threads");
    Bare                        bare;
    lockstep::Checkpoints<Bare> checkpoints(bare, {.directory = saved});
    std::optional<NoThreads>    none;
    if (rank() == ranks() - 1) none.emplace();
    CHECK_FALSE(checkpoints.save().has_value());
    auto const result = checkpoints.finish();
    none.reset();
    REQUIRE(result.has_value());
    CHECK_MESSAGE(says(result->failure, "expected another thread, to write the checkpoint, found: Resource temporarily unavailable"),
                  result->failure);
    CHECK(says(result->failure, "rank " + std::to_string(ranks() - 1) + ": ") == (ranks() > 1));
    CHECK_FALSE(checkpoints.save().has_value());
    CHECK(checkpoints.finish()->failure.empty());
    remove_folder(saved);
}

TEST_CASE("ranks that do not answer are an error, not a save that failed") {
    auto const saved = folder("alone");
    auto const save  = [&](std::size_t exchanges) {
        Bare                        bare(exchanges);
        lockstep::Checkpoints<Bare> checkpoints(bare, {.directory = saved});
        checkpoints.save();
        return checkpoints.finish();
    };
    for (std::size_t exchanges = 0; exchanges < 1 + 1 + 2 + 2; ++exchanges) {  // made, begun, written, published
        CAPTURE(exchanges);
        CHECK(raised([&] { save(exchanges); }) == "waited in vain");
        world().barrier();
    }
    auto const result = save(1'000'000);
    REQUIRE(result.has_value());
    CHECK_MESSAGE(result->failure.empty(), result->failure);
    remove_folder(saved);
}

}  // namespace checkpoint_test
