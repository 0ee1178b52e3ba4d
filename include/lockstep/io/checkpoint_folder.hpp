#pragma once
// A folder that one run saves its checkpoints to: they get their names, and old ones go.

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdio>  // renameat2
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "lockstep/core/error.hpp"
#include "lockstep/io/checkpoint_place.hpp"
#include "lockstep/io/file.hpp"

namespace lockstep::io {

namespace detail {

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

}  // namespace detail

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
        finish_latest();
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
        check_place();
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
        std::error_code             failed;
        check_place();
        if (std::filesystem::exists(to, failed) && !std::filesystem::exists(to / detail::index_name, failed))
            input_error(to.string(), ": expected a checkpoint, or nothing of this name, found something without ", detail::index_name);
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
        if (lock_.number() < 0) input_error(path_.string(), ": expected a folder that can be read, found: ", detail::system_reason());
        if (::flock(lock_.number(), LOCK_EX | LOCK_NB) == 0) return;
        if (errno != EWOULDBLOCK) {
            lock_ = detail::Descriptor(::open((path_ / ".lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666));
            if (lock_.number() < 0 || ::flock(lock_.number(), LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK) return;
        }
        input_error(path_.string(), ": expected a folder of this run alone, found that another one saves there");
    }

    void finish_latest() const {
        auto const latest = latest_text();
        if (!latest) return;
        std::string const name = latest->substr(0, latest->find('\n'));
        if (!detail::checkpoint_version(name)) return;
        std::error_code failed;
        if (auto const pending = detail::pending_latest(path_, path_ / name))
            std::filesystem::rename(pending->text, path_ / detail::latest_name, failed);
    }

    /// Who moves the folder away moves its lock, too: another run may save to one of the same name by now.
    void check_place() const {
        struct ::stat locked {};
        struct ::stat there {};
        if (::fstat(lock_.number(), &locked) != 0) return;
        std::filesystem::path const place = S_ISDIR(locked.st_mode) ? path_ : path_ / ".lock";
        if (::stat(place.c_str(), &there) != 0) return;  // who writes there will say so
        if (there.st_dev != locked.st_dev || there.st_ino != locked.st_ino)
            input_error(path_.string(), ": expected the folder that this run began to save to, found another one in its place");
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
