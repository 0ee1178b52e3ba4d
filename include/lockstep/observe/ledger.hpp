#pragma once
// The memory ledger: every buffer the library allocates is booked under a category.

#include <array>
#include <atomic>
#include <cstddef>
#include <string_view>

namespace lockstep::observe {

enum class Category { parameters, masters, gradients, optimizer_state, activations, gathered, buckets, scratch, data };

inline constexpr std::size_t categories = 9;

constexpr std::string_view name(Category category) noexcept {
    constexpr std::array<std::string_view, categories> names{"params",   "master",  "grads",   "optimizer", "activations",
                                                             "gathered", "buckets", "scratch", "data"};
    return names[static_cast<std::size_t>(category)];
}

/// Bytes held now and at most, per category and in all. One ledger a process; safe from any thread.
class Ledger {
public:
    struct Entry {
        std::atomic<std::size_t> now{0};
        std::atomic<std::size_t> peak{0};

        void add(std::size_t bytes) noexcept {
            std::size_t const held = now.fetch_add(bytes, std::memory_order_relaxed) + bytes;
            std::size_t       seen = peak.load(std::memory_order_relaxed);
            while (seen < held && !peak.compare_exchange_weak(seen, held, std::memory_order_relaxed)) {}
        }
        void remove(std::size_t bytes) noexcept { now.fetch_sub(bytes, std::memory_order_relaxed); }
    };

    void add(Category category, std::size_t bytes) noexcept {
        entries_[static_cast<std::size_t>(category)].add(bytes);
        total_.add(bytes);
    }
    void remove(Category category, std::size_t bytes) noexcept {
        entries_[static_cast<std::size_t>(category)].remove(bytes);
        total_.remove(bytes);
    }

    Entry const& operator[](Category category) const noexcept { return entries_[static_cast<std::size_t>(category)]; }
    Entry const& total() const noexcept { return total_; }

    /// Lets a phase of a step have a peak of its own: the peaks start again from what is held now.
    void restart_peaks() noexcept {
        for (Entry& entry : entries_) entry.peak.store(entry.now.load());
        total_.peak.store(total_.now.load());
    }

private:
    std::array<Entry, categories> entries_;
    Entry                         total_;
};

inline Ledger& ledger() noexcept {
    static Ledger instance;
    return instance;
}

}  // namespace lockstep::observe
