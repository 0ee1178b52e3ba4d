#pragma once
// The files that hold a model's tensors: one safetensors file, or shards with an index that says which tensor lies where.

#include <cstddef>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "lockstep/core/error.hpp"
#include "lockstep/io/file.hpp"
#include "lockstep/io/json.hpp"
#include "lockstep/io/safetensors.hpp"

namespace lockstep::io {

/// A tensor and the file that it is to be taken from.
struct TensorSource {
    std::size_t file   = 0;
    std::size_t tensor = 0;  // of file.tensors()
};

/// A file of a model's folder; a link out of it is refused. Hub caches keep their blobs beside the snapshots: those are inside. `what`
/// begins the message.
inline std::filesystem::path const& model_file(std::filesystem::path const& file, std::string const& what) {
    namespace fs = std::filesystem;
    std::error_code problem;
    fs::path const  target = fs::canonical(file, problem);
    fs::path const  home   = problem ? fs::path() : fs::canonical(file.has_parent_path() ? file.parent_path() : ".", problem);
    if (problem) input_error(what, ": expected a file that can be read, found: ", problem.message());
    bool const cache = home.parent_path().filename() == "snapshots" && target.parent_path() == home.parent_path().parent_path() / "blobs";
    if (target.parent_path() != home && !cache) input_error(what, ": expected in the same directory, found a link to ", target.string());
    return file;
}

namespace detail {

/// A shard's place, unless its name or a link leads out of the directory.
inline std::filesystem::path shard_path(std::filesystem::path const& directory, std::string const& shard, std::string const& index) {
    if (!names_an_entry(shard))
        input_error(index, ": \"weight_map\" must hold names of files in the same directory, found \"", printable(shard), '"');
    return model_file(directory / shard, sentence(index, ": shard \"", printable(shard), '"'));
}

}  // namespace detail

/// All tensors of a checkpoint by name.
class TensorFiles {
public:
    /// `path`: a safetensors file, or a directory with model.safetensors or model.safetensors.index.json.
    explicit TensorFiles(std::filesystem::path const& path) : name_(path.string()) {
        namespace fs = std::filesystem;
        std::error_code ignored;  // the reader of the file says what is wrong with it, be it a dangling link
        if (!fs::is_directory(path, ignored)) {
            add_all(path);
            return;
        }
        fs::path const whole = path / "model.safetensors", index = path / "model.safetensors.index.json";
        if (fs::exists(fs::symlink_status(whole, ignored)))
            add_all(model_file(whole, whole.string()));
        else if (fs::exists(fs::symlink_status(index, ignored)))
            add_shards(path, model_file(index, index.string()));
        else
            input_error(name_, ": expected model.safetensors or model.safetensors.index.json, found neither");
    }

    std::string const&                         name() const noexcept { return name_; }
    std::map<std::string, TensorSource> const& tensors() const noexcept { return tensors_; }
    SafetensorsFile const&                     file(TensorSource const& source) const noexcept { return files_[source.file]; }
    TensorInfo const& info(TensorSource const& source) const noexcept { return files_[source.file].tensors()[source.tensor]; }

private:
    void add_all(std::filesystem::path const& path) {
        name_ = path.string();
        files_.emplace_back(path);
        for (std::size_t i = 0; i < files_[0].tensors().size(); ++i) tensors_.emplace(files_[0].tensors()[i].name, TensorSource{0, i});
    }

    void add_shards(std::filesystem::path const& directory, std::filesystem::path const& index) {
        name_                 = index.string();
        Json const       json = read_json(index, 25'000'000);
        JsonObject const top(json, name_);
        for (auto const& item : json.items())
            if (item.key() != "metadata" && item.key() != "weight_map")
                top.refuse(item.key(), "is not a key of an index: expected metadata and weight_map, found another");
        if (json.contains("metadata")) static_cast<void>(top.object("metadata"));
        JsonObject const                   map = top.object("weight_map");
        std::map<std::string, std::size_t> shards;
        for (auto const& item : map.json().items()) {
            std::string const shard = map.string(item.key());
            auto const [at, fresh]  = shards.emplace(shard, files_.size());
            if (fresh) files_.emplace_back(detail::shard_path(directory, shard, name_));
            SafetensorsFile const&  file  = files_[at->second];
            TensorInfo const* const found = file.find(item.key());
            if (found == nullptr)
                input_error(file.path_name(), ": tensor \"", printable(item.key()), "\": expected by ", name_, ", not found");
            tensors_.emplace(item.key(), TensorSource{at->second, static_cast<std::size_t>(found - file.tensors().data())});
        }
        for (SafetensorsFile const& file : files_)  // a tensor that the index assigns to another shard is stale, and legal
            for (TensorInfo const& tensor : file.tensors())
                if (!tensors_.contains(tensor.name))
                    input_error(file.path_name(), ": tensor \"", printable(tensor.name), "\": expected in ", name_, ", not found there");
    }

    std::string                         name_;  // of the file that lists the tensors
    std::vector<SafetensorsFile>        files_;
    std::map<std::string, TensorSource> tensors_;
};

}  // namespace lockstep::io
