#pragma once
// The report's script, second part: the timeline of a step for all ranks, memory during a step, tables, and the page itself.

#include <string_view>

namespace lockstep::report {

inline constexpr std::string_view page_timeline = R"js(
const E = {};
run.events.forEach((name, i) => { E[name] = i; });
const unit = i => i < run.units.length ? run.units[i] : "unit " + i;
function label([event, part, index]) {
  const what = run.events[event];
  if (what === "forward" || what === "backward" || what === "acquire" || what.startsWith("AllGather")) return what + " " + unit(index);
  if (what.startsWith("Reduction") || what === "submit") return what + " bucket " + index;
  return what === "step" ? what + " " + index : what;
}
function tone(event) {
  const what = run.events[event];
  if (what === "forward" || what === "backward" || what === "update") return what;
  if (what === "merge") return "backward";
  if (what.startsWith("AllGather") || what === "acquire") return "parameters";
  if (what.startsWith("Reduction") || what.startsWith("Sum") || ["submit", "drain", "agreement"].includes(what)) return "gradients";
  if (what === "norm" || what === "clip" || what === "publish") return "update";
  return what === "batch wait" ? "data" : "other";
}
const is_wire = r => ["AllGather", "Reduction", "Sum"].includes(run.events[r[0]]);
const is_span = r => !is_wire(r) && r[4] > r[3] && run.events[r[0]] !== "step";

// Steps that all ranks recorded: where they begin and end over all ranks.
const recorded = new Map();
for (const rank of run.ranks) for (const thread of rank.threads) for (const r of thread.records) if (r[0] === E.step) {
  const s = recorded.get(r[2]) || {begin: Infinity, end: -Infinity, ranks: 0};
  recorded.set(r[2], {begin: Math.min(s.begin, r[3]), end: Math.max(s.end, r[4]), ranks: s.ranks + 1});
}

// When the last rank had come to what a rank's wait or transfer is for: the k-th issue of one rank is the k-th of all.
const issue_event = r => E[run.events[r[0]].replace(/ wait$/, "") + " issued"];
const issues = run.ranks.map(rank => {
  const thread = rank.threads.find(t => t.records.some(r => r[0] === E.step));
  return thread ? thread.records.filter(r => run.events[r[0]].endsWith(" issued")) : [];
});
const matched = issues.every(own => own.length === issues[0].length);
const gathered = run.gathered_among || issues.length, partners = (issue, rank) => {
  const first = issue === E["AllGather issued"] ? rank - rank % gathered : 0;
  return issues.slice(first, issue === E["AllGather issued"] ? first + gathered : issues.length);
};
function last_came(r, rank) {
  const wanted = issue_event(r), own = issues[rank];
  if (wanted === undefined || !matched) return -Infinity;
  let low = 0, high = own.length;
  while (low < high) { const middle = (low + high) >> 1; if (own[middle][3] <= r[4]) low = middle + 1; else high = middle; }
  for (let k = low - 1; k >= 0; --k)
    if (own[k][0] === wanted && own[k][1] === r[1] && own[k][2] === r[2]) return Math.max(...partners(wanted, rank).map(list => list[k][3]));
  return -Infinity;
}

// Slices of a rank within a span of time, in rows that do not overlap.
function rows_of(rank, begin, end) {
  const rows = [];
  for (const thread of rank.threads) {
    const open = [], levels = [];
    const spans = thread.records.filter(r => is_span(r) && r[4] > begin && r[3] < end).sort((a, b) => a[3] - b[3] || b[4] - a[4]);
    for (const r of spans) {
      while (open.length && open[open.length - 1] <= r[3]) open.pop();
      (levels[open.length] = levels[open.length] || []).push(r);
      open.push(r[4]);
    }
    levels.forEach((slices, depth) => { if (slices) rows.push({name: depth === 0 ? thread.name : "", slices, tall: depth === 0}); });
  }
  const wires = [];
  rank.threads.flatMap(t => t.records.filter(r => is_wire(r) && r[4] > begin && r[3] < end)).sort((a, b) => a[3] - b[3]).forEach(r => {
    let row = wires.findIndex(w => w[w.length - 1][4] <= r[3]);
    if (row < 0) row = wires.push([]) - 1;
    wires[row].push(r);
  });
  wires.forEach((slices, i) => rows.push({name: i === 0 ? "wire" : "", slices, tall: true}));
  return rows;
}

function timeline(parent) {
  const steps = [...recorded.keys()].sort((a, b) => a - b);
  if (steps.length === 0) { add(parent, "p", {}, "No step was recorded."); return; }
  const controls = add(parent, "div", {class: "controls"}), choice = add(add(controls, "label", {}, "Step "), "select", {id: "timeline-step"});
  for (const s of steps) add(choice, "option", {value: s}, s);
  choice.value = steps[steps.length - 1];
  const whole = add(controls, "button", {type: "button"}, "Whole step");
  add(controls, "span", {}, "Scroll to zoom, drag to move, hover for numbers.");
  legend(parent, [["forward", "forward"], ["backward", "backward"], ["parameters", "parameters"], ["gradients", "gradients"], ["update", "update"], ["data", "data"], ["before the last rank came", "late"]]);
  let from, to, rows, held = null;
  const reset = () => {
    const s = recorded.get(+choice.value);
    from = s.begin; to = s.end;
    rows = run.ranks.map(rank => rows_of(rank, from, to));
  };
  reset();
  const place = add(parent, "div");
  const draw = () => {
    place.textContent = "";
    const width = Math.max(320, place.clientWidth || 1000), left = 92;
    const height = 30 + rows.reduce((sum, r) => sum + 12 + r.reduce((h, row) => h + (row.tall ? 26 : 18), 0), 0);
    const svg = add(place, "svg", {viewBox: "0 0 " + width + " " + height, height, class: held ? "zoom held" : "zoom", id: "timeline"});
    const x = t => left + (t - from) / (to - from) * (width - left - 8), start = recorded.get(+choice.value).begin;
    for (const t of ticks((from - start) / 1e6, (to - start) / 1e6, width / 130)) {
      add(svg, "line", {class: "grid", x1: x(t * 1e6 + start), x2: x(t * 1e6 + start), y1: 22, y2: height});
      add(svg, "text", {x: x(t * 1e6 + start), y: 14, "text-anchor": "middle"}, axis_time(t));
    }
    let y = 28;
    rows.forEach((own, rank) => {
      add(svg, "line", {class: "axis", x1: 0, x2: width, y1: y - 4, y2: y - 4});
      own.forEach((row, i) => {
        const tall = row.tall ? 22 : 15;
        if (i === 0) add(svg, "text", {x: 0, y: y + 15, class: "strong"}, "rank " + rank);
        if (row.name && (i > 0 || row.name === "wire")) add(svg, "text", {x: left - 8, y: y + 15, "text-anchor": "end"}, row.name);
        for (const r of row.slices) {
          if (r[4] <= from || r[3] >= to) continue;
          const a = Math.max(left, x(r[3])), b = Math.min(width - 8, x(r[4])), wide = Math.max(0.7, b - a);
          const rect = add(svg, "rect", {x: a, y, width: wide > 4 ? wide - 1 : wide, height: tall, rx: wide > 8 ? 3 : 0, fill: color(tone(r[0])), "data-label": label(r)});
          const came = Math.min(last_came(r, rank), r[4], to);
          if (came > Math.max(r[3], from)) add(svg, "rect", {x: a, y, width: Math.max(0.7, x(came) - a), height: tall, rx: wide > 8 ? 3 : 0, fill: color("late"), "pointer-events": "none"});
          rect.onpointermove = event => { if (!held) { event.stopPropagation(); show_tip(event, label(r), details(r, start, rank)); } };
          rect.onpointerleave = hide_tip;
          const text = label(r);
          if (row.tall && wide > text.length * 6.1 + 10) add(svg, "text", {x: a + 6, y: y + 15, class: "on"}, text);
          else if (row.tall && wide > unit(r[2]).length * 6.1 + 10 && ["forward", "backward"].includes(run.events[r[0]])) add(svg, "text", {x: a + 6, y: y + 15, class: "on"}, unit(r[2]));
        }
        y += tall + (row.tall ? 4 : 3);
      });
      y += 12;
    });
    svg.onwheel = event => {
      event.preventDefault();
      const at = from + (event.clientX - svg.getBoundingClientRect().left - left) / (width - left - 8) * (to - from), factor = Math.exp(Math.sign(event.deltaY) * 0.2);
      from = at - (at - from) * factor; to = at + (to - at) * factor;
      draw();
    };
    svg.onpointerdown = event => { held = {x: event.clientX, from, to}; svg.classList.add("held"); hide_tip(); };
    svg.onpointermove = event => {
      if (!held || event.buttons === 0) { held = null; return; }
      const moved = (event.clientX - held.x) / (width - left - 8) * (held.to - held.from);
      from = held.from - moved; to = held.to - moved;
      draw();
    };
    svg.onpointerup = () => { held = null; svg.classList.remove("held"); };
  };
  const details = (r, start, rank) => {
    const list = [["rank", rank], ["from", time((r[3] - start) / 1e6)], ["for", time((r[4] - r[3]) / 1e6)]];
    const late = Math.max(0, Math.min(last_came(r, rank), r[4]) - r[3]), wire = (r[4] - r[3] - late) / 1e6;
    if (late > 0) list.push(["before the last rank came", time(late / 1e6)]);
    if (r[5] && is_wire(r)) list.push(["sent by this rank", bytes(r[5])], ["rate", wire > 0 ? rate(r[5], wire) : "–"]);
    if (["forward", "backward"].includes(run.events[r[0]])) list.push(["micro-step", r[1]]);
    return list;
  };
  whole.onclick = choice.onchange = () => { reset(); draw(); };
  drawings.push(draw);
  draw();
}

const memory_order = [0, 1, 2, 3, 5, 6, 7, 8, 4];  // from below: what changes during a step lies on top

// Memory of rank 0 during a step, with what the arenas of activations hold in place of their size.
function memory_in_step(parent) {
  const steps = [...recorded.keys()].sort((a, b) => a - b);
  if (steps.length === 0 || run.ranks.length === 0) return;
  const {begin, end} = recorded.get(steps[steps.length - 1]), own = run.ranks[0].threads.flatMap(t => t.records);
  const changes = own.filter(r => r[0] === E.memory && r[3] <= end).sort((a, b) => a[3] - b[3]);
  const order = memory_order, in_use = run.categories.length;
  const now = new Array(in_use + 1).fill(0), points = [];
  const total = () => order.map(c => c === 4 && now[in_use] > 0 ? now[in_use] : now[c]);
  for (const r of changes) {
    now[r[2]] = r[5];
    if (r[3] < begin) points.length = 0;
    if (points.length && points[points.length - 1].at === r[3]) points.pop();
    points.push({at: Math.max(r[3], begin), held: total()});
  }
  if (points.length === 0) return;
  points[0].at = begin;
  points.push({at: end, held: points[points.length - 1].held});
  const sum = p => p.held.reduce((a, b) => a + b, 0), phases = ["forward", "backward"].map(phase => {
    const spans = own.filter(r => run.events[r[0]] === phase && r[3] >= begin && r[4] <= end);
    let best = null;
    for (const p of points) if (spans.some(s => p.at >= s[3] && p.at <= s[4] + 2e5) && (!best || sum(p) > sum(best))) best = p;
    return {phase, best};
  });
  add(parent, "h2", {style: "margin-top:22px"}, "During step " + steps[steps.length - 1]);
  legend(parent, order.filter((c, i) => points.some(p => p.held[i] > 0)).map(c => [run.categories[c] + (c === 4 ? " in use" : ""), "m" + c]));
  drawing(parent, 240, (svg, width, height) => {
    const left = 66, most = Math.max(...points.map(sum)) * 1.25 || 1;
    const x = t => left + (t - begin) / (end - begin) * (width - left - 12), y = v => height - 24 - v / most * (height - 34);
    frame(svg, width, height, x, y, [], byte_ticks(most, 4), bytes, left);
    for (const t of ticks(0, (end - begin) / 1e6, width / 130)) add(svg, "text", {x: x(begin + t * 1e6), y: height - 6, "text-anchor": "middle"}, axis_time(t));
    order.forEach((c, i) => {
      const below = p => p.held.slice(0, i).reduce((a, b) => a + b, 0);
      let over = "", under = "";
      points.forEach((p, n) => {
        const until = n + 1 < points.length ? points[n + 1].at : p.at;
        over += (n ? "L" : "M") + x(p.at).toFixed(1) + " " + y(below(p) + p.held[i]).toFixed(1) + "L" + x(until).toFixed(1) + " " + y(below(p) + p.held[i]).toFixed(1);
        under = "L" + x(until).toFixed(1) + " " + y(below(p)).toFixed(1) + "L" + x(p.at).toFixed(1) + " " + y(below(p)).toFixed(1) + under;
      });
      if (points.some(p => p.held[i] > 0)) add(svg, "path", {d: over + under + "Z", fill: color("m" + c), stroke: color("m" + c), "stroke-width": c === 4 ? 1 : 0});
    });
    const [forward, backward] = phases.map(p => p.best && x(p.best.at)), near = forward && backward && Math.abs(forward - backward) < 170;
    const split = near && forward > left + 170 && backward <= width - 190;  // one to the left, one to the right
    const highest = Math.min(...phases.filter(p => p.best).map(p => y(sum(p.best))));
    for (const {phase, best} of phases) if (best) {
      const before = x(best.at) > width - 190 || (split && phase === "forward"), level = near && !split && phase === "forward" ? highest - 15 : y(sum(best));
      add(svg, "circle", {cx: x(best.at), cy: y(sum(best)), r: 4, fill: color("ink"), stroke: color("card"), "stroke-width": 2});
      add(svg, "text", {x: x(best.at) + (before ? -8 : 8), y: level - 7, "text-anchor": before ? "end" : "start", class: "strong"}, phase + " peak " + bytes(sum(best)));
    }
    svg.onpointermove = event => {
      const at = begin + (event.clientX - svg.getBoundingClientRect().left - left) / (width - left - 12) * (end - begin);
      const p = points.reduce((best, q) => q.at <= at ? q : best, points[0]);
      show_tip(event, time((at - begin) / 1e6), order.map((c, i) => [run.categories[c], p.held[i]]).filter(e => e[1] > 0).reverse().map(e => [e[0], bytes(e[1])]).concat([["sum", bytes(sum(p))]]));
    };
    svg.onpointerleave = hide_tip;
  });
}
)js";

}  // namespace lockstep::report
