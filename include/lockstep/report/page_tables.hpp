#pragma once
// The report's script, last part: tiles, tables, and the order of the page.

#include <string_view>

namespace lockstep::report {

inline constexpr std::string_view page_tables = R"js(
// Means without the first step, which warms up, unless it is the only one.
const warm = column => { const all = run.metrics[column]; return mean(all.length > 1 ? all.slice(1) : all); };
const last_known = column => run.metrics[column].filter(known).pop();

const parts = [
  {name: "compute", column: "compute_ms", tone: "compute"},
  {name: "waiting for parameters", column: "parameters_ms", tone: "parameters"},
  {name: "waiting for gradients", column: "gradients_ms", tone: "gradients"},
  {name: "late peer", column: "late_peer_ms", tone: "late"},
  {name: "update", column: "update_ms", tone: "update"},
  {name: "data", column: "data_ms", tone: "data"},
  {name: "other", column: "other_ms", tone: "other"}];

function tiles(parent) {
  const loss = last_known("loss"), validation = last_known("val_loss"), mfu = warm("mfu");
  const all = [[short(loss, 4), "loss after step " + (run.metrics.step[run.metrics.step.length - 1] ?? 0)], [short(warm("tokens_per_s")), "tokens/s"],
    [time(warm("step_ms")), "a step"], [known(mfu) ? (100 * mfu).toFixed(1) + " %" : "–", "of the measured peak"],
    [bytes(last_known("mem_peak_bytes")), "peak memory"], [String(run.world), run.world === 1 ? "rank" : "ranks"]];
  if (known(validation)) all.splice(1, 0, [short(validation, 4), "validation loss"]);
  for (const [value, name] of all) {
    const tile = add(parent, "div", {class: "tile"});
    add(tile, "b", {}, value);
    add(tile, "span", {}, name);
  }
}

function decomposition(parent) {
  const table = add(parent, "table", {id: "decomposition"}), head = add(table, "tr"), step = warm("step_ms");
  for (const name of ["average step of rank 0", "time", "share", ""]) add(head, "th", {}, name);
  const line = (name, ms, tone, kind) => {
    const row = add(table, "tr", {class: kind || ""});
    add(row, "td", {}, name);
    add(row, "td", {"data-ms": known(ms) ? ms : ""}, time(ms));
    add(row, "td", {}, known(ms) && step ? (100 * ms / step).toFixed(1) + " %" : "–");
    const bar = add(row, "td", {style: "text-align:left;width:26%"});
    if (tone && known(ms) && step) add(bar, "span", {class: "share", style: "width:" + Math.min(100, 100 * ms / step).toFixed(1) + "%;background:" + color(tone)});
  };
  for (const p of parts) line(p.name, warm(p.column), p.tone);
  line("step", step, "", "sum");
  if (known(warm("comm_ms")) && run.world > 1) {
    line("wire busy", warm("comm_ms"), "", "beside");
    line("of this hidden", warm("hidden_ms"), "", "beside");
  }
}

function collective_table(parent) {
  if (run.collectives.length === 0) { add(parent, "p", {}, "No collective was recorded."); return; }
  const scroll = add(parent, "div", {class: "scroll"}), table = add(scroll, "table", {id: "collectives"}), head = add(table, "tr");
  for (const name of ["collective, rank 0", "a step", "sent", "on the wire", "rate", "waited", "late peer", "hidden"]) add(head, "th", {}, name);
  for (const c of run.collectives) {
    const row = add(table, "tr");
    add(row, "td", {}, c.name);
    for (const text of [plain(short(c.count)), c.bytes > 0 ? bytes(c.bytes) : "–", time(c.wire_ms), c.wire_ms > 0 && c.bytes > 0 ? rate(c.bytes, c.wire_ms) : "–",
      time(c.exposed_ms), time(c.late_ms), known(c.hidden) ? (100 * c.hidden).toFixed(0) + " %" : "–"]) add(row, "td", {}, text);
  }
}

function section(title, text) {
  const made = add(document.querySelector("main"), "section");
  add(made, "h2", {}, title);
  add(made, "p", {}, text);
  return made;
}

function page() {
  tiles(document.getElementById("tiles"));
  const about = section("Run", run.subtitle), list = add(about, "dl", {class: "about", style: "margin:0"});
  for (const [name, value] of run.about) { add(list, "dt", {}, name); add(list, "dd", {}, value); }
  if (run.slow) add(about, "p", {id: "slow", style: "margin-top:10px"}, run.slow);

  const loss = add(section("Loss", "Mean over the valid tokens of all ranks, step by step."), "div", {class: "columns"});
  line_chart(add(loss, "div"), "loss", [{name: "loss", column: "loss", tone: "loss"}, {name: "validation loss", column: "val_loss", tone: "validation", dots: true}], 240, v => short(v, 4));
  line_chart(add(loss, "div"), "rate", [{name: "learning rate", column: "lr", tone: "rate"}], 240, v => short(v, 2), true);

  const time_of = add(section("Where a step's time goes", "Every nanosecond of the step's thread belongs to exactly one part. Means of rank 0 leave out the first step."), "div", {class: "columns"});
  stacked_chart(add(time_of, "div"), parts, 300, time);
  decomposition(add(time_of, "div", {class: "scroll"}));

  const error = Math.max(0, ...run.ranks.map(r => r.error));
  const steps = section("A step on all ranks", "Times are those of one clock. " + (run.ranks.length < 2 ? "" : error === 0 ? "All ranks read the same clock." : "The ranks' clocks are aligned to within " + time(error / 1e6) + "."));
  run.ranks.forEach((r, rank) => {
    if (r.lost > 0) add(steps, "p", {class: "lost"}, "rank " + rank + ": " + r.lost + " events of the recorded steps were overwritten before they could be read: the timeline has holes");
  });
  timeline(steps);
  collective_table(section("Collectives", "Means over the recorded steps. On the wire: from the last rank's coming to the end. Waited: the part of it in which the step's thread waited, for this collective or another; the rest is hidden."));

  const memory = section("Memory", "Largest that each category of rank 0 held in a step, as the ledger has it.");
  stacked_chart(memory, memory_order.map(c => ({name: run.categories[c], column: "mem" + c, tone: "m" + c})), 240, bytes);
  memory_in_step(memory);
  add(document.querySelector("main"), "footer", {}, "lockstep " + run.version);
}
page();
let width = innerWidth;
addEventListener("resize", () => { if (innerWidth !== width) { width = innerWidth; drawings.forEach(draw => draw()); } });
)js";

}  // namespace lockstep::report
