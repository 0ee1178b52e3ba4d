#pragma once
// A recording as Chrome/Perfetto JSON: one file for all ranks. Process = rank, rows = threads and the wire.
//
// Slices of a row nest. What is on the wire has rows of its own, as many as overlap. Arrows lead from what made a collective possible
// (a bucket's last gradient, or its issue) to the transfer and on to the wait for it.

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/report/collectives.hpp"
#include "lockstep/report/json.hpp"

namespace lockstep::report {

class TraceWriter {
public:
    explicit TraceWriter(Recording const& recording) : recording_(recording) {
        base_ = std::numeric_limits<observe::Nanoseconds>::max();
        for (auto const& rank : recording.ranks)
            for (auto const& thread : rank.threads)
                for (auto const& r : thread.records) base_ = std::min(base_, r.begin);
    }

    std::string text() {
        JsonWriter info;
        info.add_text("backend", "mpi").add("rank", 0).add("world_size", recording_.ranks.size());
        text_ = "{\"schemaVersion\": 1,\n\"distributedInfo\": " + info.text() +
                ",\n\"displayTimeUnit\": \"ms\",\n\"traceName\": \"lockstep\",\n";
        text_ += "\"baseTimeNanoseconds\": " + std::to_string(base_) + ",\n\"traceEvents\": [";
        for (std::size_t rank = 0; rank < recording_.ranks.size(); ++rank) add_rank(rank);
        text_ += "\n]}\n";
        return std::move(text_);
    }

private:
    static constexpr std::size_t wire = 1000;  // number of the first row of transfers

    void add_rank(std::size_t rank) {
        Recording::Rank const& all  = recording_.ranks[rank];
        std::size_t const      step = step_thread(all);
        process_                    = rank;

        JsonWriter name, clock;
        name.add_text("name", "rank " + std::to_string(rank));
        metadata("process_name", 0, name.text());
        metadata("process_sort_index", 0, JsonWriter{}.add("sort_index", rank).text());
        clock.add("offset_ns", all.clock.offset)
            .add("drift", all.clock.drift)
            .add("error_ns", all.clock.error)
            .add("lost_records", all.lost);
        metadata("clock", 0, clock.text());

        memory_ = {};
        for (std::size_t t = 0; t < all.threads.size(); ++t) {
            if (all.threads[t].records.empty()) continue;
            row_name(1 + t, all.threads[t].name, t == step ? 0 : 1 + t);
            std::vector<observe::Record const*> spans;
            for (observe::Record const& r : all.threads[t].records) {
                if (r.event == observe::Event::memory)
                    counter(r);
                else if (is_instant(r.event))
                    instant(r, 1 + t);
                else if (!is_transfer(r.event))
                    spans.push_back(&r);
            }
            std::stable_sort(spans.begin(), spans.end(),
                             [](auto* a, auto* b) { return a->begin != b->begin ? a->begin < b->begin : a->end > b->end; });
            for (observe::Record const* r : spans) slice(*r, 1 + t);
        }
        add_wire(all);
    }

    /// Each transfer goes to the first row of the wire that is free.
    void add_wire(Recording::Rank const& all) {
        auto const at = [&](RecordAt where) -> observe::Record const& { return all.threads[where.thread].records[where.record]; };
        std::vector<observe::Nanoseconds> ends;
        for (Collective const& c : collectives(all)) {
            observe::Record const& transfer = at(c.transfer);
            std::size_t            row      = 0;
            while (row < ends.size() && ends[row] > transfer.begin) ++row;
            if (row == ends.size()) {
                ends.push_back(0);
                row_name(wire + row, row == 0 ? "wire" : "wire " + std::to_string(row + 1), wire + row);
            }
            ends[row] = transfer.end;
            slice(transfer, wire + row);

            observe::Nanoseconds const inside = transfer.begin + (transfer.end - transfer.begin) / 2;
            if (transfer.end - transfer.begin < 2) continue;  // no arrow can end inside
            ++flows_;
            bool const starts = c.source.thread != Collective::none;
            if (starts) flow('s', at(c.source).begin, 1 + c.source.thread);
            bool            open = starts;
            RecordAt const* last = nullptr;
            for (RecordAt const& wait : c.waits)
                if (at(wait).end - at(wait).begin >= 2 && at(wait).end - 1 >= inside) last = &wait;
            if (!open && last == nullptr) continue;
            flow(!open ? 's' : last != nullptr ? 't' : 'f', inside, wire + row);
            if (last != nullptr) flow('f', at(*last).end - 1, 1 + last->thread);
        }
    }

    static bool is_instant(observe::Event event) noexcept {
        return event == observe::Event::bucket_ready || event == observe::Event::version || is_issue(event);
    }
    static std::string_view category(observe::Event event) noexcept {
        if (is_transfer(event)) return "transfer";
        if (event == observe::Event::step) return "user_annotation";
        switch (activity_of(event)) {
            case observe::Activity::compute:
                return "compute";
            case observe::Activity::parameters_wait:
            case observe::Activity::gradients_wait:
                return "communication";
            case observe::Activity::update:
                return "update";
            case observe::Activity::data:
                return "data";
            default:
                return "other";
        }
    }

    void slice(observe::Record const& r, std::size_t row) {
        begin_event('X', label(r, recording_.units), category(r.event), r.begin, row);
        text_ += ", \"dur\": ";
        microseconds(r.end - r.begin);
        JsonWriter args;
        if (r.event == observe::Event::forward || r.event == observe::Event::backward) args.add("micro-step", r.part);
        if (r.event == observe::Event::gather) args.add("copy", r.part);
        if (r.bytes != 0) args.add("bytes", r.bytes);
        if (is_transfer(r.event))
            args.add_text("Collective name", name(r.event)).add("Group size", recording_.partners(issue_of(r.event), process_).size());
        text_ += ", \"args\": " + args.text() + '}';
    }
    void instant(observe::Record const& r, std::size_t row) {
        begin_event('i', label(r, recording_.units), category(r.event), r.begin, row);
        text_ += ", \"s\": \"t\"}";
    }
    void counter(observe::Record const& r) {
        if (r.index >= memory_.size()) return;
        memory_[r.index] = r.bytes;
        begin_event('C', r.index == observe::arena_in_use ? "activations in use" : "memory", "memory", r.begin, 1);
        JsonWriter args;
        if (r.index == observe::arena_in_use)
            args.add("bytes", r.bytes);
        else
            for (std::size_t c = 0; c < observe::categories; ++c) args.add(name(static_cast<observe::Category>(c)), memory_[c]);
        text_ += ", \"args\": " + args.text() + '}';
    }
    void flow(char phase, observe::Nanoseconds at, std::size_t row) {
        begin_event(phase, "collective", "flow", at, row);
        text_ += ", \"id\": " + std::to_string(flows_);
        text_ += phase == 'f' ? ", \"bp\": \"e\"}" : "}";
    }

    void metadata(std::string_view kind, std::size_t row, std::string const& args) {
        ((text_ += first_ ? "\n" : ",\n") += "{\"ph\": \"M\", \"name\": ") += json_quoted(kind);
        text_ += ", \"pid\": " + std::to_string(process_) + ", \"tid\": " + std::to_string(row) + ", \"args\": " + args + '}';
        first_ = false;
    }
    void row_name(std::size_t row, std::string const& name, std::size_t order) {
        metadata("thread_name", row, JsonWriter{}.add_text("name", name).text());
        metadata("thread_sort_index", row, JsonWriter{}.add("sort_index", order).text());
    }
    void begin_event(char phase, std::string_view name, std::string_view category, observe::Nanoseconds at, std::size_t row) {
        (((text_ += first_ ? "\n" : ",\n") += "{\"ph\": \"") += phase) += "\", \"name\": ";
        (((text_ += json_quoted(name)) += ", \"cat\": ") += json_quoted(category)) += ", \"pid\": ";
        text_ += std::to_string(process_) + ", \"tid\": " + std::to_string(row) + ", \"ts\": ";
        microseconds(at - base_);
        first_ = false;
    }
    void microseconds(observe::Nanoseconds ns) {
        std::string const rest = std::to_string(ns % 1000);
        ((text_ += std::to_string(ns / 1000)) += '.') += std::string(3 - rest.size(), '0') + rest;
    }

    Recording const&                                   recording_;
    observe::Nanoseconds                               base_ = 0;
    std::string                                        text_;
    std::size_t                                        process_ = 0, flows_ = 0;
    bool                                               first_ = true;
    std::array<std::uint64_t, observe::categories + 1> memory_{};
};

}  // namespace lockstep::report
