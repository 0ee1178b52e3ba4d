#pragma once
// Where checkpoints lie in a folder: step-<version> for each, and the file `latest` that names the newest. A checkpoint has its name only
// when it is complete; until then it is written under a name that begins with a dot.

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "lockstep/core/error.hpp"
#include "lockstep/io/checkpoint_index.hpp"
#include "lockstep/io/file.hpp"

namespace lockstep::io {

namespace detail {

inline constexpr std::string_view step_prefix = "step-", unfinished_suffix = ".tmp", aside_suffix = ".old.tmp", latest_name = "latest",
                                  index_name = "index.json";

/// A number that sorts as its name does, with at least so many digits.
inline std::string numbered(std::uint64_t number, std::size_t least) {
    std::string const digits = std::to_string(number);
    return std::string(digits.size() < least ? least - digits.size() : 0, '0') + digits;
}
inline std::string                  checkpoint_name(std::uint64_t version) { return std::string(step_prefix) + numbered(version, 10); }
inline std::optional<std::uint64_t> checkpoint_version(std::string_view name) {
    if (!name.starts_with(step_prefix)) return std::nullopt;
    name.remove_prefix(step_prefix.size());
    std::uint64_t version  = 0;
    auto const [end, code] = std::from_chars(name.data(), name.data() + name.size(), version);
    return code == std::errc() && end == name.data() + name.size() ? std::optional(version) : std::nullopt;
}

/// Versions with a checkpoint in the folder, ascending.
inline std::vector<std::uint64_t> checkpoint_versions(std::filesystem::path const& folder) {
    std::vector<std::uint64_t> versions;
    std::error_code            failed;
    for (auto at = std::filesystem::directory_iterator(folder, failed); !failed && at != std::filesystem::directory_iterator();
         at.increment(failed))
        if (auto const version = checkpoint_version(at->path().filename().string());
            version && at->path().filename() == checkpoint_name(*version) && std::filesystem::exists(at->path() / index_name, failed))
            versions.push_back(*version);
    std::ranges::sort(versions);
    return versions;
}

/// Where a complete checkpoint lies for the moment between two renames.
inline std::filesystem::path aside(std::filesystem::path const& complete) {
    return complete.parent_path() / ('.' + complete.filename().string() + std::string(aside_suffix));
}

/// The place of something in a directory, unless its name or a link leads out of it.
inline std::filesystem::path inner_path(std::filesystem::path const& directory, std::string const& name, std::string const& source) {
    namespace fs = std::filesystem;
    if (!names_an_entry(name)) input_error(source, ": expected a name in the same directory, found \"", printable(name), '"');
    std::error_code problem;
    fs::path const  target = fs::canonical(directory / name, problem);
    fs::path const  home   = problem ? fs::path() : fs::canonical(directory, problem);
    if (problem) input_error(source, ": expected \"", printable(name), "\" beside it: ", problem.message());
    if (target.parent_path() != home)
        input_error(source, ": expected \"", printable(name), "\" in the same directory, found a link to ", printable(target.string()));
    return directory / name;
}

/// A file that must lie where its name says; a link out of there is refused.
inline std::filesystem::path const& own_file(std::filesystem::path const& path) {
    std::error_code failed;
    if (std::filesystem::is_symlink(std::filesystem::symlink_status(path, failed)))
        static_cast<void>(inner_path(path.parent_path(), path.filename().string(), path.string()));
    return path;
}

}  // namespace detail

/// The run that saved a checkpoint; "" where its index names none or cannot be read.
inline std::string run_of(std::filesystem::path const& checkpoint) {
    std::filesystem::path const place = checkpoint / detail::index_name;
    try {
        return parse_run(read_text(detail::own_file(place), checkpoint_index_limit), place.string());
    } catch (Error const&) {
        return "";
    }
}

namespace detail {

/// What `latest` was about to name.
struct Pending {
    std::filesystem::path text;        // the unfinished file
    std::string           checkpoint;  // complete, newer, and of the same run as the one that `latest` names
};

/// Killed between the two names, a run has left the text of `latest` for a checkpoint that is complete.
inline std::optional<Pending> pending_latest(std::filesystem::path const& folder, std::filesystem::path const& named) {
    auto const      version = checkpoint_version(named.filename().string());
    std::error_code failed;
    if (!version) return std::nullopt;
    for (auto at = std::filesystem::directory_iterator(folder, failed); !failed && at != std::filesystem::directory_iterator();
         at.increment(failed)) {
        std::string const file = at->path().filename().string();
        if (!file.starts_with(".latest.") || !file.ends_with(unfinished_suffix) || !at->is_regular_file(failed) || at->is_symlink(failed))
            continue;
        std::string name;
        try {
            name = read_text(at->path(), 4096);
        } catch (Error const&) {
            continue;
        }
        if (name.ends_with('\n')) name.pop_back();
        auto const newer = checkpoint_version(name);
        if (!newer || *newer <= *version || name != checkpoint_name(*newer)) continue;
        std::string const run = run_of(folder / name);
        if (!run.empty() && run == run_of(named)) return Pending{at->path(), name};
    }
    return std::nullopt;
}

}  // namespace detail

/// The directory of the newest complete checkpoint in a folder; or the path itself where it is that of a checkpoint.
inline std::filesystem::path newest_checkpoint(std::filesystem::path const& path) {
    namespace fs = std::filesystem;
    std::error_code failed;
    if (!fs::is_directory(path, failed))
        input_error(path.string(), ": expected a folder of checkpoints, found ", fs::exists(path, failed) ? "a file" : "nothing");
    if (fs::exists(path / detail::index_name, failed)) return path;
    fs::path const latest = path / detail::latest_name;
    if (fs::exists(fs::symlink_status(latest, failed))) {
        std::string name = read_text(detail::own_file(latest), 4096);
        if (name.ends_with('\n')) name.pop_back();
        bool const moved = detail::checkpoint_version(name) && !fs::exists(path / name, failed) &&  // killed between two renames
                           fs::exists(detail::aside(path / name) / detail::index_name, failed);
        fs::path const found = detail::inner_path(path, moved ? detail::aside(path / name).filename().string() : name, latest.string());
        if (!fs::is_directory(found, failed)) input_error(found.string(), ": expected a directory, found a file");
        if (auto const pending = detail::pending_latest(path, found)) return detail::inner_path(path, pending->checkpoint, latest.string());
        return found;
    }
    auto const versions = detail::checkpoint_versions(path);  // a run may have ended between the two names
    if (versions.empty())
        input_error(path.string(), ": expected a checkpoint (", detail::index_name, ", or ", detail::latest_name,
                    " that names one), found none");
    return detail::inner_path(path, detail::checkpoint_name(versions.back()), path.string());
}

}  // namespace lockstep::io
