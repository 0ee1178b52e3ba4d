#include "observed.hpp"

#include "lockstep/io/file.hpp"
#include "lockstep/report/page.hpp"
#include "lockstep/report/trace.hpp"

namespace train_gpt {

namespace ls = lockstep;

namespace {

void write_file(std::string const& name, std::string const& text) {
    ls::io::ReplacingFile file(name);
    file.write(0, text);
    file.commit();
}

}  // namespace

Observed::Observed(Settings const& settings, ls::comm::Communicator const& world, std::vector<ls::state::Unit> const& units)
    : settings_(settings), world_(world), clocks_(world) {
    for (ls::state::Unit const& unit : units) units_.push_back(unit.name);
    error_us_ = static_cast<double>(world.max(clocks_.relation().error)) * 1e-3;
}

std::string Observed::clocks() const {
    return error_us_ == 0 ? "all ranks read the same one" : "those of the ranks agree to within " + ls::report::fixed(error_us_, 1) + " us";
}

bool Observed::records(std::uint64_t version) const noexcept {
    bool const asked = !settings_.trace.empty() || !settings_.report.empty();
    return asked && version >= settings_.trace_first && version <= settings_.trace_last;
}

void Observed::begin_step(std::uint64_t version) {
    if (!recording_ && records(version)) recorder_.start();
    recording_ = records(version);
}

void Observed::end_step(ls::StepResult const& result, ls::report::StepMetrics const& metrics) {
    if (recording_) recorder_.copy();
    if (!settings_.report.empty() && world_.rank() == 0) history_.add(metrics);
    ls::LatePeer const& late = result.communication.late;
    slow_.add({.rank = late.rank, .ms = static_cast<double>(late.ns) * 1e-6, .where = where(late)}, *metrics.step_ms);
    lost_ += result.communication.lost_records;
    clocks_.after_step(result.version);
}

std::string Observed::lost() const {
    std::string text;
    auto const  counts = world_.gather_values(lost_);
    for (std::size_t rank = 0; rank < counts.size(); ++rank)
        if (counts[rank] != 0) text += ls::sentence(text.empty() ? "rank " : ", of rank ", rank, text.empty() ? ": " : " ", counts[rank]);
    if (text.empty()) return text;
    return text + " events were overwritten before they could be read: times of communication and the slow rank may lack something";
}

std::string Observed::where(ls::LatePeer const& late) const {
    using Phase      = ls::LatePeer::Phase;
    std::string text = std::string(name(late.phase));
    if (late.phase == Phase::forward || late.phase == Phase::backward) text += " of " + units_[late.unit];
    return text;
}

void Observed::write(ls::report::RunHeader const& run, Lost& lost) const {
    if (settings_.trace.empty() && settings_.report.empty()) return;
    ls::report::Recording recording = recorder_.gather(world_, units_);
    if (settings_.strategy == Strategy::hybrid) recording.gathered_among = settings_.parallel.shard_group;
    ls::on_first_rank_at_length(world_, [&] {
        if (!settings_.trace.empty()) lost.written([&] { write_file(settings_.trace, ls::report::TraceWriter(recording).text()); });
        if (!settings_.report.empty()) lost.written([&] { write_page(run, std::move(recording)); });
    });
}

void Observed::write_page(ls::report::RunHeader const& run, ls::report::Recording recording) const {
    ls::report::Page page;
    page.title = "lockstep: " + std::string(name(settings_.sizes.arch)) + ", " +
                 ls::report::readable_count(static_cast<double>(run.parameters)) + " parameters, " + std::to_string(run.ranks) +
                 (run.ranks == 1 ? " rank" : " ranks");
    page.subtitle = "What ran, and on what.";
    page.about    = run.settings;
    page.about.insert(page.about.begin(),
                      {{"machine", ls::report::describe(run.machine)},
                       {"runs as", std::to_string(run.ranks) + (run.ranks == 1 ? " rank, " : " ranks, ") + std::to_string(run.threads) +
                                       (run.threads == 1 ? " thread" : " threads") + " each, " + run.isa + " kernels"}});
    page.slow      = slow_rank();
    page.ranks     = static_cast<std::size_t>(run.ranks);
    page.steps     = history_.steps();
    page.recording = std::move(recording);
    write_file(settings_.report, ls::report::html(page));
}

}  // namespace train_gpt
