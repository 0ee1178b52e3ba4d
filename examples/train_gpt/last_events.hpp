#pragma once
// What a rank did last, beside the metrics, for whoever asks why it came no further.

#include <cstdio>
#include <exception>
#include <filesystem>
#include <string>
#include <system_error>
#include <utility>

#include "lockstep/comm/communicator.hpp"
#include "lockstep/core/escape.hpp"
#include "lockstep/report/last_events.hpp"
#include "settings.hpp"

namespace train_gpt {

class LastEvents {
public:
    LastEvents(Settings const& settings, lockstep::comm::Communicator const& world)
        : metrics_(settings.metrics), rank_(world.rank()), ranks_(world.size()) {}

    /// Those of an earlier run tell why it ended: they get another name. Once the flags and files of this one are known to be right.
    void keep_earlier() {
        if (metrics_.empty() || std::exchange(kept_, true)) return;
        rename(rank_);
        if (rank_ == 0)
            for (int of = ranks_; rename(of);) ++of;  // of a run that had more
    }

    /// Writes them, once.
    void leave() {
        if (metrics_.empty() || std::exchange(left_, true)) return;
        keep_earlier();
        try {
            lockstep::report::write_last_events(file(rank_));
        } catch (std::exception const& error) {
            std::fprintf(stderr, "rank %d: %s\n", rank_, lockstep::escaped(error.what()).c_str());
        }
    }

private:
    std::filesystem::path file(int rank) const { return metrics_ + ".rank" + std::to_string(rank) + ".events.jsonl"; }

    bool rename(int rank) const {
        std::error_code failed;
        std::filesystem::rename(file(rank), file(rank).string() + ".old", failed);
        return !failed;
    }

    std::string metrics_;
    int         rank_, ranks_;
    bool        kept_ = false, left_ = false;
};

}  // namespace train_gpt
