#pragma once
// Where a run's results go.

#include <memory>
#include <optional>

#include "lockstep/io/file.hpp"
#include "lockstep/report/metrics.hpp"
#include "settings.hpp"

namespace train_gpt {

/// The open places of a run's results. A folder that was made for them goes again where nothing was written to it.
struct Places {
    std::optional<lockstep::io::NewDirectory>      folder;
    std::unique_ptr<lockstep::report::MetricsFile> metrics;
};

/// Refuses a result that would overwrite what is read, or another result; tries whether all can be written; opens the metrics last,
/// because that is the first to write.
Places open_places(Settings const& settings);

}  // namespace train_gpt
