#pragma once
// What tests of --save and --resume share: a small run, and the contents of checkpoints.

#include <atomic>
#include <map>
#include <thread>

#include "program.hpp"

namespace lockstep::test {

struct CheckpointPlace {
    Folder      folder;
    std::string data = folder.write("data.bin", shard(some_tokens(769, 61)));  // 48 windows: an epoch is 4 steps of 12
    Words       flags{"--data",    data,  "--layers",       "2",  "--heads",        "2",  "--dim",         "32",
                "--vocab",   "61",  "--seq",          "16", "--global-batch", "12", "--micro-batch", "1",
                "--dropout", "0.1", "--val-fraction", "0",  "--sample",       "0",  "--lr",          "0.01"};
    std::string saved = folder / "saved", out = folder / "out", metrics = folder / "m.jsonl";

    Words       steps(int n) const { return flags + Words{"--steps", std::to_string(n)}; }
    std::string exported() const { return read_all(out + "/model.safetensors"); }
};

inline std::string newest(std::string const& folder) {
    std::string name = read_all(folder + "/latest");
    REQUIRE(name.ends_with('\n'));
    return folder + "/" + name.substr(0, name.size() - 1);
}

/// The files of a checkpoint by the standard: header and data of a safetensors file.
struct Tensors {
    explicit Tensors(std::string const& file) : bytes(read_all(file)) {
        std::size_t length = 0;
        for (std::size_t i = 8; i-- > 0;) length = length << 8 | static_cast<unsigned char>(bytes[i]);
        header = nlohmann::ordered_json::parse(bytes.substr(8, length));
        begin  = 8 + length;
    }
    std::string data(std::string const& name) const {
        auto const& at = header.at(name).at("data_offsets");
        return bytes.substr(begin + at[0].get<std::size_t>(), at[1].get<std::size_t>() - at[0].get<std::size_t>());
    }
    std::string            bytes;
    nlohmann::ordered_json header;
    std::size_t            begin = 0;
};

/// All tensors of a checkpoint, whole.
inline std::map<std::string, std::string> contents_of(std::string const& checkpoint) {
    std::map<std::string, std::string> all;
    std::map<std::string, Tensors>     files;
    auto const                         index = nlohmann::json::parse(read_all(checkpoint + "/index.json"));
    for (auto const& [name, tensor] : index.at("tensors").items())
        for (auto const& piece : tensor.at("pieces")) {  // by range
            std::string const file = piece.at("file");
            auto const        at   = files.try_emplace(file, checkpoint + "/" + file).first;
            all[name] += at->second.data(piece.at("name"));
        }
    return all;
}

/// Everything in a folder that is not a checkpoint or `latest`.
inline std::vector<std::string> strangers(std::string const& folder) {
    std::vector<std::string> names;
    for (auto const& entry : std::filesystem::directory_iterator(folder))
        if (std::string const name = entry.path().filename().string(); name != "latest" && !name.starts_with("step-"))
            names.push_back(name);
    return names;
}
inline std::size_t checkpoints(std::string const& folder) {
    std::size_t count = 0;
    for (auto const& entry : std::filesystem::directory_iterator(folder)) count += entry.path().filename().string().starts_with("step-");
    return count;
}

/// A run in the background whose ranks can be sent signals.
class Background {
public:
    Background(Folder const& folder, int ranks, Words const& flags) : folder_(folder), ranks_(ranks) {
        for (int rank = 0; rank < ranks; ++rank) std::filesystem::remove(pid_file(rank));
        std::string command = "echo $$ > " + (folder / "pid.") + "${PMI_RANK:-0}; exec " LOCKSTEP_TRAIN_GPT;
        for (std::string const& word : flags) command += " '" + word + "'";
        thread_ = std::thread([this, command] {
            ended_ = run_command({LOCKSTEP_MPIEXEC, "-n", std::to_string(ranks_), "/bin/sh", "-c", command}, 200);
            over_  = true;
        });
    }
    ~Background() {
        if (thread_.joinable()) thread_.join();
    }
    void signal(int rank, int number) const {
        if (pid_t const process = process_of(rank); process != 0) ::kill(process, number);
    }
    /// 0 where the run has ended.
    pid_t process_of(int rank) const {
        std::string pid;
        while (!over_ && !(pid = read_all(pid_file(rank))).ends_with('\n')) std::this_thread::sleep_for(std::chrono::milliseconds(2));
        return pid.ends_with('\n') ? std::stoi(pid) : 0;
    }
    /// As a batch system does it; ranks are children of a proxy of the launcher's.
    void signal_launcher(int number) const {
        if (pid_t const process = process_of(0); process != 0) ::kill(parent_of(parent_of(process)), number);
    }
    /// Until something is there, or the run has ended.
    template <class Ready>
    bool wait(Ready const& ready) const {
        while (!ready()) {
            if (over_) return ready();
            std::this_thread::sleep_for(std::chrono::milliseconds(2));
        }
        return true;
    }
    Ended const& end() {
        if (thread_.joinable()) thread_.join();
        return ended_;
    }

private:
    static pid_t parent_of(pid_t process) {
        std::string const stat = read_all("/proc/" + std::to_string(process) + "/stat");  // "PID (NAME) STATE PPID ..."
        return std::stoi(stat.substr(stat.rfind(')') + 4));
    }
    std::string pid_file(int rank) const { return folder_ / ("pid." + std::to_string(rank)); }

    Folder const&     folder_;
    int               ranks_;
    std::atomic<bool> over_{false};
    Ended             ended_;
    std::thread       thread_;
};

}  // namespace lockstep::test
