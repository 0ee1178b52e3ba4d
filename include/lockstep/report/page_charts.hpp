#pragma once
// The report's script, first part: elements, numbers, line charts and stacked charts.

#include <string_view>

namespace lockstep::report {

inline constexpr std::string_view page_charts = R"js(
"use strict";
const run = JSON.parse(document.getElementById("data").textContent);
const tip = document.getElementById("tip");
const drawings = [];

function add(parent, tag, attributes, text) {
  const drawn = parent instanceof SVGElement || tag === "svg";
  const node = drawn ? document.createElementNS("http://www.w3.org/2000/svg", tag) : document.createElement(tag);
  for (const key in attributes || {}) node.setAttribute(key, attributes[key]);
  if (text !== undefined) node.textContent = text;
  parent.append(node);
  return node;
}
const color = name => "var(--" + name + ")";
const known = value => value !== null && value !== undefined;

function short(value, digits = 3) {
  if (!known(value)) return "–";
  const size = Math.abs(value);
  if (size >= 1e9) return short(value / 1e9, digits) + " G";
  if (size >= 1e6) return short(value / 1e6, digits) + " M";
  if (size >= 1e4) return short(value / 1e3, digits) + " k";
  if (size === 0) return "0";
  if (size < 1e-3) return value.toExponential(1);
  return value.toFixed(Math.max(0, Math.min(6, digits - 1 - Math.floor(Math.log10(size)))));
}
function bytes(value) {
  if (!known(value)) return "–";
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  while (unit < 4 && value >= 1023.5) { value /= 1024; ++unit; }
  return (unit === 0 || value >= 99.95 ? value.toFixed(0) : value >= 9.995 ? value.toFixed(1) : value.toFixed(2)) + " " + units[unit];
}
const time = ms => !known(ms) ? "–" : ms === 0 ? "0" : ms >= 1000 ? (ms / 1000).toFixed(2) + " s" : ms >= 0.995 ? ms.toFixed(ms < 99.995 ? 2 : 1) + " ms" : (ms * 1000).toFixed(1) + " µs";
const plain = text => text.replace(/(\.\d*?)0+(?=\D|$)/, "$1").replace(/\.(?=\D|$)/, "");  // without zeros that say nothing
const axis_time = ms => plain(time(ms));
const rate = (sent, ms) => short(sent / ms * 1e3).replace(/\d$/, "$& ") + "B/s";
const mean = values => { const some = values.filter(known); return some.length ? some.reduce((a, b) => a + b, 0) / some.length : null; };

function byte_ticks(most, wanted) {
  const step = Math.pow(2, Math.ceil(Math.log2(Math.max(most, 1) / wanted))), all = [];
  for (let t = 0; t <= most; t += step) all.push(t);
  return all;
}
function ticks(least, most, wanted) {
  if (!(most > least)) most = least + (Math.abs(least) || 1);
  const rough = (most - least) / wanted, power = Math.pow(10, Math.floor(Math.log10(rough)));
  const step = [1, 2, 2.5, 5, 10].map(f => f * power).find(s => s >= rough * 0.999);
  const all = [];
  for (let i = Math.ceil(least / step - 1e-9); i * step <= most + step * 1e-9; ++i) all.push(i * step);
  return all;
}

function show_tip(event, title, rows) {
  tip.textContent = "";
  add(tip, "b", {}, title);
  for (const [what, value] of rows) {
    const row = add(tip, "div");
    add(row, "span", {}, what);
    add(row, "span", {}, value);
  }
  const box = tip.getBoundingClientRect();
  tip.style.left = Math.max(4, Math.min(event.clientX + 16, innerWidth - box.width - 8)) + "px";
  tip.style.top = (event.clientY + 18 + box.height > innerHeight ? event.clientY - box.height - 12 : event.clientY + 18) + "px";
  tip.style.visibility = "visible";
}
const hide_tip = () => { tip.style.visibility = "hidden"; };

function legend(parent, entries) {
  const list = add(parent, "div", {class: "legend"});
  for (const [name, tone] of entries) {
    const entry = add(list, "span");
    add(entry, "i", {style: "background:" + color(tone)});
    entry.append(name);
  }
}

// Draws now and whenever the width changes.
function drawing(parent, height, draw) {
  const place = add(parent, "div");
  const again = () => {
    place.textContent = "";
    const width = Math.max(280, place.clientWidth || 1000);
    draw(add(place, "svg", {viewBox: "0 0 " + width + " " + height, height}), width, height);
  };
  drawings.push(again);
  again();
  return again;
}

// Steps in at most `most` groups: the first step of each, and means of what is asked for.
function grouped(columns, most) {
  const steps = run.metrics.step, size = Math.max(1, Math.ceil(steps.length / most)), result = {step: [], last: []};
  for (const c of columns) result[c] = [];
  for (let i = 0; i < steps.length; i += size) {
    result.step.push(steps[i]);
    result.last.push(steps[Math.min(i + size, steps.length) - 1]);
    for (const c of columns) result[c].push(mean(run.metrics[c].slice(i, i + size)));
  }
  return result;
}
const range_name = (g, i) => g.step[i] === g.last[i] ? "step " + g.step[i] : "steps " + g.step[i] + " to " + g.last[i];

function frame(svg, width, height, x, y, x_ticks, y_ticks, y_name, left) {
  for (const t of y_ticks) {
    add(svg, "line", {class: "grid", x1: left, x2: width - 8, y1: y(t), y2: y(t)});
    add(svg, "text", {x: left - 8, y: y(t) + 4, "text-anchor": "end"}, plain(y_name(t)));
  }
  for (const t of x_ticks) add(svg, "text", {x: x(t), y: height - 6, "text-anchor": "middle"}, String(t));
  add(svg, "line", {class: "axis", x1: left, x2: width - 8, y1: height - 24, y2: height - 24});
}

function line_chart(parent, name, series, height, format, from_zero) {
  const columns = series.map(s => s.column), g = grouped(columns, 600);
  const values = columns.flatMap(c => g[c]).filter(known);
  if (values.length === 0) { add(parent, "p", {}, "Not measured."); return; }
  legend(parent, series.filter(s => g[s.column].some(known)).map(s => [s.name, s.tone]));
  drawing(parent, height, (svg, width) => {
    const left = 58, first = g.step[0], last = Math.max(g.last[g.last.length - 1], first + 1);
    let least = from_zero ? 0 : Math.min(...values), most = Math.max(...values);
    const gap = (most - least || Math.abs(most) || 1) * 0.06;
    if (!from_zero) least -= gap;
    most += gap;
    const x = s => left + (s - first) / (last - first) * (width - left - 24), y = v => height - 24 - (v - least) / (most - least) * (height - 34);
    frame(svg, width, height, x, y, ticks(first, last, width / 110).filter(Number.isInteger), ticks(least, most, 4), format, left);
    for (const s of series) {
      let path = "", open = false;
      g[s.column].forEach((v, i) => {
        if (known(v)) { path += (open || (path && s.dots) ? "L" : "M") + x(g.last[i]).toFixed(1) + " " + y(v).toFixed(1); open = true; } else open = false;
      });
      add(svg, "path", {d: path, fill: "none", stroke: color(s.tone), "stroke-width": 2, "stroke-linejoin": "round"});
      if (s.dots || g.step.length === 1) g[s.column].forEach((v, i) => { if (known(v)) add(svg, "circle", {cx: x(g.last[i]), cy: y(v), r: 3.5, fill: color(s.tone)}); });
    }
    const cross = add(svg, "line", {class: "cross", y1: 8, y2: height - 24, visibility: "hidden"});
    svg.onpointermove = event => {
      const at = first + (event.clientX - svg.getBoundingClientRect().left - left) / (width - left - 24) * (last - first);
      let near = 0;
      g.last.forEach((s, i) => { if (Math.abs(s - at) < Math.abs(g.last[near] - at)) near = i; });
      cross.setAttribute("x1", x(g.last[near]));
      cross.setAttribute("x2", x(g.last[near]));
      cross.setAttribute("visibility", "visible");
      show_tip(event, range_name(g, near), series.filter(s => known(g[s.column][near])).map(s => [s.name, format(g[s.column][near])]));
    };
    svg.onpointerleave = () => { cross.setAttribute("visibility", "hidden"); hide_tip(); };
  });
}

// Bars of parts that add up.
function stacked_chart(parent, parts, height, format) {
  const columns = parts.map(p => p.column), g = grouped(columns, 160);
  const shown = parts.filter(p => g[p.column].some(v => known(v) && v > 0));
  legend(parent, shown.map(p => [p.name, p.tone]));
  drawing(parent, height, (svg, width) => {
    const left = 66, sums = g.step.map((_, i) => shown.reduce((sum, p) => sum + (g[p.column][i] || 0), 0));
    const most = (Math.max(...sums) || 1) * 1.04, slot = (width - left - 8) / g.step.length, bar = Math.max(1, Math.min(slot - (slot > 5 ? 2 : 0.4), 64));
    const x = i => left + (i + 0.5) * slot, y = v => height - 24 - v / most * (height - 34);
    frame(svg, width, height, x, y, [], format === bytes ? byte_ticks(most, 4) : ticks(0, most, 4), format === time ? axis_time : format, left);
    const every = Math.max(1, Math.ceil(g.step.length / (width / 90)));
    g.step.forEach((s, i) => { if (i % every === 0) add(svg, "text", {x: x(i), y: height - 6, "text-anchor": "middle"}, s); });
    g.step.forEach((_, i) => {
      let below = 0;
      for (const p of shown) {
        const v = g[p.column][i] || 0;
        if (v > 0) add(svg, "rect", {x: x(i) - bar / 2, y: y(below + v), width: bar, height: Math.max(0, y(below) - y(below + v)), fill: color(p.tone)});
        below += v;
      }
    });
    svg.onpointermove = event => {
      const i = Math.max(0, Math.min(g.step.length - 1, Math.floor((event.clientX - svg.getBoundingClientRect().left - left) / slot)));
      show_tip(event, range_name(g, i), shown.slice().reverse().map(p => [p.name, format(g[p.column][i])]).concat([["sum", format(sums[i])]]));
    };
    svg.onpointerleave = hide_tip;
  });
}
)js";

}  // namespace lockstep::report
