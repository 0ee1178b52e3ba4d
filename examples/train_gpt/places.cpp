#include "places.hpp"

#include <filesystem>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "lockstep/core/error.hpp"
#include "lockstep/data/source_text.hpp"

namespace train_gpt {

namespace {

namespace fs = std::filesystem;

struct Named {
    std::string what;  // the flag, or the flag and a file below what it names
    fs::path    file;
};

std::vector<Named> inputs(Settings const& settings) {
    std::vector<Named> files;
    std::error_code    failed;
    if (settings.data.empty())
        for (fs::path const& source : lockstep::data::source_files(LOCKSTEP_SOURCE_DIR)) files.push_back({"--data (the sources)", source});
    else
        files.push_back({"--data", settings.data});
    if (!settings.val_data.empty()) files.push_back({"--val-data", settings.val_data});
    if (settings.init.empty()) return files;
    fs::path const init   = settings.init;
    fs::path const folder = fs::is_directory(init, failed) ? init : init.parent_path();
    files.push_back({"--init", init});
    files.push_back({"--init", folder / "config.json"});
    if (folder != init) return files;
    for (fs::directory_entry const& entry : fs::directory_iterator(folder, failed))
        if (std::string const name = entry.path().filename().string();
            name.ends_with(".safetensors") || name == "model.safetensors.index.json")
            files.push_back({"--init", entry.path()});
    return files;
}

std::vector<Named> outputs(Settings const& settings) {
    std::vector<Named> files;
    if (!settings.metrics.empty()) files.push_back({"--metrics", settings.metrics});
    if (!settings.trace.empty()) files.push_back({"--trace", settings.trace});
    if (!settings.report.empty()) files.push_back({"--report", settings.report});
    if (!settings.export_dir.empty())
        for (char const* name : {"config.json", "model.safetensors"}) files.push_back({"--export", fs::path(settings.export_dir) / name});
    return files;
}

/// The whole name of a file, links followed as far as they can be, also one to a file that is not there yet.
fs::path whole_name(fs::path const& file) {
    std::error_code failed;
    fs::path        whole = fs::absolute(file, failed);
    if (failed) return file.lexically_normal();
    for (int links = 0; links < 40 && fs::is_symlink(fs::symlink_status(whole, failed)); ++links)
        whole = whole.parent_path() / fs::read_symlink(whole, failed);
    fs::path const followed = fs::weakly_canonical(whole, failed);
    return failed ? whole.lexically_normal() : followed;
}

/// Whether two names lead to one file, be it there already or not.
bool same_file(fs::path const& a, fs::path const& b) {
    std::error_code failed;
    if (fs::equivalent(a, b, failed)) return true;
    return whole_name(a) == whole_name(b);
}

/// Whether a file belongs to a checkpoint in the folder, or would.
bool in_a_checkpoint(fs::path const& file, fs::path const& folder) {
    fs::path const    below = whole_name(file).lexically_relative(whole_name(folder));
    std::string const first = below.empty() ? std::string() : below.begin()->string();
    std::error_code   failed;
    bool const        is_checkpoint = fs::exists(folder / "index.json", failed);  // the folder itself
    return first == "latest" || first.starts_with("step-") || (is_checkpoint && !first.empty() && first != "..");
}

void check_own_files(Settings const& settings) {
    std::vector<Named> taken = inputs(settings);
    for (Named const& output : outputs(settings)) {
        for (auto const& [flag, folder] : {std::pair("--save", settings.save), std::pair("--resume", settings.resume)})
            if (!folder.empty() && in_a_checkpoint(output.file, folder))
                lockstep::input_error(output.what, " ", output.file.string(), ": expected a file of its own, found one of a checkpoint of ",
                                      flag);
        for (Named const& other : taken)
            if (other.what != output.what && same_file(output.file, other.file))
                lockstep::input_error(output.what, " ", output.file.string(), ": expected a file of its own, found that of ", other.what);
        taken.push_back(output);
    }
}

/// Tries whether weights can be written to the folder.
void check_export_place(fs::path const& folder) {
    for (char const* file : {"config.json", "model.safetensors"}) lockstep::io::ReplacingFile const unfinished(folder / file);
}

}  // namespace

Places open_places(Settings const& settings) {
    check_own_files(settings);
    Places places;
    if (!settings.export_dir.empty()) {
        places.folder.emplace(settings.export_dir);
        check_export_place(settings.export_dir);
    }
    for (std::string const& file : {settings.trace, settings.report})
        if (!file.empty()) lockstep::io::ReplacingFile const unfinished(file);
    auto const mode = settings.resume.empty() ? lockstep::report::FileMode::truncate : lockstep::report::FileMode::append;
    if (!settings.metrics.empty()) places.metrics = std::make_unique<lockstep::report::MetricsFile>(settings.metrics, mode);
    return places;
}

}  // namespace train_gpt
