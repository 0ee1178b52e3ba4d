#include "saving.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lockstep/core/escape.hpp"
#include "lockstep/train/checkpoints.hpp"
#include "lockstep/train/resume.hpp"

namespace train_gpt {

namespace ls = lockstep;

namespace {

/// Flags that decide where results go, not what the steps do.
constexpr std::array<std::string_view, 17> of_results{"--resume",
                                                      "--save",
                                                      "--save-every",
                                                      "--keep",
                                                      "--metrics",
                                                      "--trace",
                                                      "--trace-steps",
                                                      "--report",
                                                      "--export",
                                                      "--sample",
                                                      "--prompt",
                                                      "--temperature",
                                                      "--timeout",
                                                      "--init",
                                                      "--eval-every",
                                                      "--max-skips",
                                                      "--check-replicas-every"};

/// "version 5", "versions 5 to 9".
std::string versions(std::vector<std::uint64_t> const& list) {
    return list.size() == 1 ? ls::sentence("version ", list.front()) : ls::sentence("versions ", list.front(), " to ", list.back());
}

}  // namespace

Configuration saved_configuration(Settings const& settings, std::uint64_t data_checksum) {
    Configuration all;
    for (ls::Setting const& setting : settings.listed) all.emplace_back(setting.name, setting.value);
    all.emplace_back("bytes of --data", "checksum " + std::to_string(data_checksum));
    return all;
}

ls::io::CheckpointFacts resume_run(Settings const& settings, AnyTrainer& trainer) {
    auto const facts = ls::resume(trainer, settings.resume);
    if (facts.version > settings.steps)
        ls::input_error("--steps ", settings.steps, ": expected at least ", facts.version, ", the version of the run in ", settings.resume,
                        " that --resume continues, found fewer");
    if (auto const rest = facts.position.next_sample % settings.global_batch; rest != 0)
        ls::input_error("--global-batch ", settings.global_batch, ": expected a divisor of the ", facts.position.next_sample,
                        " samples that the run in ", settings.resume, " has used, found a remainder of ", rest);
    return facts;
}

std::string what_changed(Configuration const& saved, Configuration const& now) {
    std::string text;
    for (auto const& [name, value] : now) {
        if (std::find(of_results.begin(), of_results.end(), name) != of_results.end()) continue;
        auto const before = std::find_if(saved.begin(), saved.end(), [&wanted = name](auto const& entry) { return entry.first == wanted; });
        if (before == saved.end() || before->second == value) continue;
        text += (text.empty() ? "" : ", ") + name + ' ' + before->second + " -> " + value;
    }
    return text;
}

bool weights_finite(AnyTrainer& trainer) {
    try {
        trainer.check_finite();
        return true;
    } catch (ls::Error const& error) {
        if (error.fault() != ls::Fault::training) throw;
        return false;
    }
}

class Saving::Work {
public:
    Work(Settings const& settings, AnyTrainer& trainer, Configuration configuration, std::string const& run)
        : trainer_(trainer),
          directory_(settings.save),
          every_(settings.save_every),
          configuration_(std::move(configuration)),
          checkpoints_(trainer, {.directory = settings.save, .keep = settings.keep, .run = run}) {}

    void tell(std::function<void(std::string const&)> say) {
        say_               = std::move(say);
        auto const strange = checkpoints_.strange();
        if (strange.empty()) return;
        say_(ls::sentence("--save ", directory_, " holds ", versions(strange),
                          " of a run that this one does not continue: ", strange.size() == 1 ? "it stays" : "they stay",
                          " until this one saves the same, and `latest` will name this one's"));
    }

    void go_on() {
        if (checkpoints_.saving()) tell(checkpoints_.advance());
    }

    void after_step(ls::StepResult const& result, ls::io::RunPosition position) {
        go_on();
        if (every_ == 0 || !result.applied || result.version % every_ != 0) return;
        if (checkpoints_.saving())
            left_out_.push_back(result.version);
        else
            save(position);
    }

    bool finish(ls::io::RunPosition position) {
        if (!left_out_.empty() && left_out_.back() == trainer_.version()) left_out_.pop_back();
        if (checkpoints_.saving() && saving_ == position)
            note(checkpoints_.finish());  // what failed is tried again, and told then
        else
            tell(checkpoints_.finish());
        bool const nothing_done = trainer_.version() == 0 && position == ls::io::RunPosition{};
        if (saved_ == position || nothing_done) return true;
        save(position);
        ending_ = true;
        tell(checkpoints_.finish());
        return saved_ == position;
    }

private:
    /// What is there must be worth the place of an older one: the same on all ranks, or a flipped bit gets a checksum that fits, and
    /// numbers.
    void save(ls::io::RunPosition position) {
        trainer_.check_replicas();
        if (!weights_finite(trainer_))
            return say_(ls::sentence("version ", trainer_.version(), " is not saved: its weights are no finite numbers"));
        auto facts     = checkpoint_facts(trainer_);
        facts.position = position;
        facts.configuration.insert(facts.configuration.end(), configuration_.begin(), configuration_.end());
        tell(checkpoints_.save(std::move(facts)));
        saving_ = position;
    }

    /// Tells of a save that has ended.
    void tell(std::optional<ls::SaveResult> const& result) {
        note(result);
        if (result && !result->remains.empty()) std::fprintf(stderr, "--save: %s\n", ls::escaped(result->remains).c_str());
        if (!result || result->failure.empty() || trainer_.rank() != 0) return;
        std::string const version = ls::sentence("version ", result->version);
        std::string const text    = ending_ ? ls::sentence("--save ", directory_, ": ", version, ", where the run ends, is not saved: ")
                                            : "--save: " + version + " is not saved, the run goes on: ";
        std::fprintf(stderr, "%s%s\n", text.c_str(), ls::escaped(result->failure).c_str());
    }
    void note(std::optional<ls::SaveResult> const& result) {
        if (!result) return;
        if (result->failure.empty()) {
            saved_ = saving_;
            say_(ls::sentence("saved ", result->place.string()));
        }
        if (!left_out_.empty())
            say_(ls::sentence(versions(left_out_), left_out_.size() == 1 ? " was" : " were", " not saved: version ", result->version,
                              " was still being written"));
        left_out_.clear();
    }

    AnyTrainer&                             trainer_;
    std::function<void(std::string const&)> say_ = [](std::string const&) {};
    std::string                             directory_;
    std::uint64_t                           every_;
    Configuration                           configuration_;
    std::optional<ls::io::RunPosition>      saving_, saved_;  // the position that was begun last, and the one that was completed last
    std::vector<std::uint64_t>              left_out_;        // versions, since the save that is under way began
    bool                                    ending_ = false;
    ls::Checkpoints<AnyTrainer>             checkpoints_;
};

Saving::Saving(Settings const& settings, AnyTrainer& trainer, Configuration configuration, std::string const& run) {
    if (!settings.save.empty()) work_ = std::make_unique<Work>(settings, trainer, std::move(configuration), run);
}
Saving::~Saving() = default;

void Saving::tell(std::function<void(std::string const&)> say) {
    if (work_) work_->tell(std::move(say));
}

void Saving::after_step(ls::StepResult const& result, ls::io::RunPosition position) {
    if (work_) work_->after_step(result, position);
}
void Saving::go_on() {
    if (work_) work_->go_on();
}
bool Saving::finish(ls::io::RunPosition position) { return !work_ || work_->finish(position); }

}  // namespace train_gpt
