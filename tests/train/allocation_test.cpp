// A warmed-up step asks for no memory: this program counts every `operator new` of every thread.

#include <doctest/doctest.h>

#include <atomic>
#include <cstdlib>
#include <new>

#include "cases.hpp"
#include "lockstep/observe/ledger.hpp"
#include "run.hpp"

namespace {

std::atomic<std::size_t> allocations{0};

// Out of sight of the compiler, which would pair std::free with the operator new that it knows.
[[gnu::noinline]] void  released(void* data) noexcept { std::free(data); }
[[gnu::noinline]] void* counted(std::size_t bytes, std::size_t alignment) {
    ++allocations;
    void* const data = alignment <= alignof(std::max_align_t)
                           ? std::malloc(bytes)
                           : std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
    if (data == nullptr) throw std::bad_alloc();
    return data;
}

}  // namespace

void* operator new(std::size_t bytes) { return counted(bytes, 0); }
void* operator new[](std::size_t bytes) { return counted(bytes, 0); }
void* operator new(std::size_t bytes, std::align_val_t alignment) { return counted(bytes, static_cast<std::size_t>(alignment)); }
void* operator new[](std::size_t bytes, std::align_val_t alignment) { return counted(bytes, static_cast<std::size_t>(alignment)); }
void  operator delete(void* data) noexcept { released(data); }
void  operator delete[](void* data) noexcept { released(data); }
void  operator delete(void* data, std::size_t) noexcept { released(data); }
void  operator delete[](void* data, std::size_t) noexcept { released(data); }
void  operator delete(void* data, std::align_val_t) noexcept { released(data); }
void  operator delete[](void* data, std::align_val_t) noexcept { released(data); }
void  operator delete(void* data, std::size_t, std::align_val_t) noexcept { released(data); }
void  operator delete[](void* data, std::size_t, std::align_val_t) noexcept { released(data); }

TEST_CASE("the count sees what is allocated") {
    std::size_t const      before = allocations;
    std::vector<int> const one(10);
    CHECK(allocations > before);
    CHECK(one.size() == 10);
}

TEST_CASE(
    "a warmed-up step on arenas makes no allocation, with dropout, recomputation, micro-steps, reproducible or not, and two threads") {
    constexpr lockstep::state::ModelSizes sizes{
        .layers = 2, .heads = 4, .kv_heads = 4, .dim = 64, .ffn = 256, .vocab = 256, .sequence = 64};
    constexpr lockstep::state::ModelSizes llama{.arch     = lockstep::state::Architecture::llama,
                                                .layers   = 2,
                                                .heads    = 4,
                                                .kv_heads = 2,
                                                .dim      = 64,
                                                .ffn      = 96,
                                                .vocab    = 256,
                                                .sequence = 64,
                                                .tied     = false};
    for (Strategy const strategy : strategies)
        for (int const threads : {1, 2})
            for (bool const bf16 : {false, true}) {
                RunOptions options{
                    .micro_batch = 2, .max_norm = 1, .threads = threads, .model = {.dropout = 0.1f, .recompute = threads == 2}};
                options.strategy.bucket_bytes = 64 << 10;
                options.reproducible          = bf16;
                auto const run   = bf16 ? llama_bf16(strategy, llama, world(), options) : gpt2_fp32(strategy, sizes, world(), options);
                Rows const rows  = random_rows(4 * ranks(), 64, 256, 1);
                auto const batch = strategy == Strategy::single ? rows.part(0, ranks()) : rows.mine();
                // Which thread runs which task is not ours to say: threads that join late warm up late.
                for (int s = 0; s < (threads == 1 ? 2 : 10); ++s) run->step(batch, 1e-3);
                std::size_t fewest  = static_cast<std::size_t>(-1);
                auto const  scratch = lockstep::observe::ledger().total().now.load();
                for (int s = 0; s < (threads == 1 ? 1 : 5); ++s) {
                    std::size_t const before = allocations;
                    run->step(batch, 1e-3);
                    fewest = std::min(fewest, allocations - before);
                }
                CAPTURE(static_cast<int>(strategy));
                CAPTURE(threads);
                CAPTURE(bf16);
                CHECK(fewest == 0);
                if (threads == 1) CHECK(lockstep::observe::ledger().total().now.load() == scratch);
            }
}
