#pragma once
// A folder of checkpoints: step-<version> for each, and the file `latest` that names the newest. A checkpoint has its name only when it is
// complete; until then it is written under a name that begins with a dot.

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <cstdio>  // renameat2
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "lockstep/core/error.hpp"
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

/// `from` and `to`, a complete checkpoint, change names, where the file system cannot exchange them at once. Killed in between, the next
/// CheckpointFolder renames `to` back. Otherwise false with `errno`, and nothing has changed.
inline bool exchange_by_renames(std::filesystem::path const& from, std::filesystem::path const& to) {
    std::filesystem::path const old = aside(to);
    std::error_code             ignored;
    if (std::filesystem::exists(to, ignored)) std::filesystem::remove_all(old, ignored);
    if (::rename(to.c_str(), old.c_str()) != 0) return false;
    int reason = 0;
    if (::rename(from.c_str(), to.c_str()) != 0) {
        reason = errno;
    } else {
        if (::rename(old.c_str(), from.c_str()) == 0) return true;
        reason = errno;
        ::rename(to.c_str(), from.c_str());
    }
    ::rename(old.c_str(), to.c_str());
    errno = reason;
    return false;
}
inline bool exchange(std::filesystem::path const& from, std::filesystem::path const& to) {
#ifdef RENAME_EXCHANGE
    if (::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_EXCHANGE) == 0) return true;
#endif
    return exchange_by_renames(from, to);
}

/// Gives a finished directory its name. One that had it gets the other name. Without `keep` all is as before.
class Named {
public:
    Named(std::filesystem::path from, std::filesystem::path to) : from_(std::move(from)), to_(std::move(to)) {
        if (::rename(from_.c_str(), to_.c_str()) == 0) return;
        exchanged_ = (errno == ENOTEMPTY || errno == EEXIST) && exchange(from_, to_);
        if (!exchanged_) input_error(to_.string(), ": renaming the finished checkpoint failed: ", system_reason());
    }
    Named(Named const&)            = delete;
    Named& operator=(Named const&) = delete;
    ~Named() {
        if (kept_) return;
        if (exchanged_)
            exchange(from_, to_);
        else
            ::rename(to_.c_str(), from_.c_str());
    }

    void keep() noexcept { kept_ = true; }

private:
    std::filesystem::path from_, to_;
    bool                  exchanged_ = false, kept_ = false;
};

/// The place of something in a directory, unless its name or a link leads out of it.
inline std::filesystem::path inner_path(std::filesystem::path const& directory, std::string const& name, std::string const& source) {
    namespace fs = std::filesystem;
    if (!names_an_entry(name)) input_error(source, ": expected a name in the same directory, found \"", printable(name), '"');
    std::error_code problem;
    fs::path const  target = fs::canonical(directory / name, problem);
    if (problem) input_error(source, ": expected \"", printable(name), "\" beside it: ", problem.message());
    if (target.parent_path() != fs::canonical(directory))
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
        return found;
    }
    auto const versions = detail::checkpoint_versions(path);  // a run may have ended between the two names
    if (versions.empty())
        input_error(path.string(), ": expected a checkpoint (", detail::index_name, ", or ", detail::latest_name,
                    " that names one), found none");
    return detail::inner_path(path, detail::checkpoint_name(versions.back()), path.string());
}

/// Where one run writes its checkpoints. Used by one rank; the others only learn the paths.
class CheckpointFolder {
public:
    using IsOwn = std::function<bool(std::uint64_t version, std::filesystem::path const& checkpoint)>;

    /// Makes the directory where it is missing, removes what a run that was killed left unfinished, and puts back what it had set aside.
    /// `publish` removes no other checkpoints than those that are the run's own.
    explicit CheckpointFolder(
        std::filesystem::path path, IsOwn const& is_own = [](auto&&...) { return false; })
        : path_(std::move(path)), made_(path_) {
        lock();
        std::error_code                    failed;
        std::vector<std::filesystem::path> stale;
        for (auto at = std::filesystem::directory_iterator(path_, failed); !failed && at != std::filesystem::directory_iterator();
             at.increment(failed))
            if (std::string const name = at->path().filename().string();
                name.ends_with(detail::unfinished_suffix) && (name.starts_with(".step-") || name.starts_with(".latest.")))
                stale.push_back(at->path());
        for (auto const& left : stale)
            if (!put_back(left)) std::filesystem::remove_all(left, failed);
        for (std::uint64_t const version : detail::checkpoint_versions(path_))
            (is_own(version, complete(version)) ? own_ : strange_).push_back(version);
    }

    /// Versions that are there of another run, or of the same one after the version that is continued; ascending.
    std::vector<std::uint64_t> const& strange() const noexcept { return strange_; }

    std::filesystem::path const& path() const noexcept { return path_; }

    std::filesystem::path complete(std::uint64_t version) const { return path_ / detail::checkpoint_name(version); }
    std::filesystem::path unfinished(std::uint64_t version) const { return unfinished(path_, version); }

    /// Where all ranks write it.
    static std::filesystem::path unfinished(std::filesystem::path const& folder, std::uint64_t version) {
        return folder / ('.' + detail::checkpoint_name(version) + std::string(detail::unfinished_suffix));
    }

    /// Makes the empty directory in which a checkpoint is written.
    void begin(std::uint64_t version) const {
        std::filesystem::path const place = unfinished(version);
        std::error_code             failed;
        std::filesystem::remove_all(place, failed);
        if (::mkdir(place.c_str(), 0777) != 0) input_error(place.string(), ": cannot be made a directory: ", detail::system_reason());
    }

    void discard(std::uint64_t version) const noexcept {
        std::error_code ignored;
        std::filesystem::remove_all(unfinished(version), ignored);
    }

    /// Gives a directory with all its files its name, points `latest` at it, and removes this run's checkpoints beyond the `keep` newest; 0
    /// keeps all. After an error the folder is as it was before, and the directory unfinished. Returns what could not be removed and why,
    /// or nothing.
    std::string publish(std::uint64_t version, std::size_t keep) {
        std::filesystem::path const from = unfinished(version), to = complete(version);
        detail::sync_directory(from);
        auto const    before = latest_text();
        ReplacingFile latest(path_ / detail::latest_name);
        latest.write(0, to.filename().string() + '\n');
        latest.finish();  // what may find the disk full comes first
        detail::Named named(from, to);
        detail::sync_directory(path_);
        try {
            latest.commit();
        } catch (...) {
            put_back_latest(before);
            throw;
        }
        named.keep();
        discard(version);  // an earlier one of the same version, which has changed places with this one
        std::erase(own_, version);
        std::erase(strange_, version);
        own_.push_back(version);
        return keep != 0 ? remove_old(keep) : std::string();
    }

private:
    /// A directory cannot be locked where that needs a descriptor to write with, as on NFS: there a file in it is.
    void lock() {
        lock_ = detail::Descriptor(::open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
        if (lock_.number() < 0 || ::flock(lock_.number(), LOCK_EX | LOCK_NB) == 0) return;
        if (errno != EWOULDBLOCK) {
            lock_ = detail::Descriptor(::open((path_ / ".lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666));
            if (lock_.number() < 0 || ::flock(lock_.number(), LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK) return;
        }
        input_error(path_.string(), ": expected a folder of this run alone, found that another one saves there");
    }

    /// Whether this is a checkpoint that was set aside and is missing.
    bool put_back(std::filesystem::path const& left) const {
        std::string const name = left.filename().string();
        if (!name.ends_with(detail::aside_suffix)) return false;
        std::filesystem::path const to = path_ / name.substr(1, name.size() - 1 - detail::aside_suffix.size());
        std::error_code             failed;
        if (!detail::checkpoint_version(to.filename().string()) || std::filesystem::exists(to, failed)) return false;
        std::filesystem::rename(left, to, failed);
        return true;  // where that failed it stays as it is
    }

    /// None where it is missing or cannot be read.
    std::optional<std::string> latest_text() const {
        try {
            return read_text(path_ / detail::latest_name, 4096);
        } catch (Error const&) {
            return std::nullopt;
        }
    }
    void put_back_latest(std::optional<std::string> const& before) const {
        if (latest_text() == before) return;
        try {
            if (before) {
                ReplacingFile latest(path_ / detail::latest_name);
                latest.write(0, *before);
                latest.commit();
                return;
            }
        } catch (Error const&) {  // without it the highest version is the newest
        }
        if (latest_text() == before) return;
        std::error_code ignored;
        std::filesystem::remove(path_ / detail::latest_name, ignored);
    }

    std::string remove_old(std::size_t keep) {
        std::string remains;
        while (own_.size() > keep && remains.empty()) {
            std::filesystem::path const old = complete(own_.front()), hidden = unfinished(own_.front());
            std::error_code             failed;
            std::filesystem::rename(old, hidden, failed);  // what is half removed must not look complete
            std::filesystem::remove_all(hidden, failed);
            if (!failed) std::filesystem::remove_all(old, failed);  // where it kept its name
            if (failed)
                remains = sentence(old.string(), ": cannot be removed: ", failed.message());
            else
                own_.erase(own_.begin());
        }
        return remains;
    }

    std::filesystem::path      path_;
    NewDirectory               made_;  // goes again where nothing was written
    detail::Descriptor         lock_;
    std::vector<std::uint64_t> own_, strange_;  // versions; of own_ in the order in which they were saved
};

}  // namespace lockstep::io
