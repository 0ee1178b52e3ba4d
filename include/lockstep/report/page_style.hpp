#pragma once
// How the report looks, in light and in dark.

#include <string_view>

namespace lockstep::report {

inline constexpr std::string_view page_style = R"css(
:root { color-scheme: light dark; --page: #f6f6f3; --card: #ffffff; --ink: #16171a; --soft: #5d6066; --faint: #8b8e94; --line: #e3e3de;
  --grid: #ecece8; --band: #f3f3ef; --shade: rgba(20,20,30,.12);
  --forward: #2a78d6; --backward: #4a3aa7; --compute: #2a78d6; --parameters: #eb6834; --gradients: #e34948; --late: #d9559b; --update: #1b9e77;
  --data: #d99a00; --other: #a3a6ac; --loss: #2a78d6; --validation: #eb6834; --rate: #1b9e77;
  --m0: #2a78d6; --m1: #4a3aa7; --m2: #e34948; --m3: #1b9e77; --m4: #d99a00; --m5: #eb6834; --m6: #d9559b; --m7: #a3a6ac; --m8: #6b7d2f; }
@media (prefers-color-scheme: dark) { :root { --page: #131416; --card: #1c1e21; --ink: #eceef0; --soft: #a9adb4; --faint: #7d8188; --line: #303338;
  --grid: #292c30; --band: #23262a; --shade: rgba(0,0,0,.5);
  --forward: #4a94ee; --backward: #8f83e6; --compute: #4a94ee; --parameters: #e77b45; --gradients: #e66767; --late: #dc6ba7; --update: #2fae86;
  --data: #cf9a1c; --other: #72767d; --loss: #4a94ee; --validation: #e77b45; --rate: #2fae86;
  --m0: #4a94ee; --m1: #8f83e6; --m2: #e66767; --m3: #2fae86; --m4: #cf9a1c; --m5: #e77b45; --m6: #dc6ba7; --m7: #72767d; --m8: #9aac5a; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--page); color: var(--ink); font: 15px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "DejaVu Sans", sans-serif; }
main { max-width: 1180px; margin: 0 auto; padding: 32px 24px 64px; }
header { margin-bottom: 20px; }
h1 { font-size: 26px; line-height: 1.2; margin: 0 0 4px; letter-spacing: -.01em; }
h2 { font-size: 17px; margin: 0 0 2px; }
p { margin: 0; color: var(--soft); }
section { background: var(--card); border: 1px solid var(--line); border-radius: 12px; padding: 20px 22px; margin-top: 16px; }
section > p { margin-bottom: 14px; font-size: 14px; } section > p:last-child { margin-bottom: 0; } p.lost { color: var(--ink); }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(140px, 1fr)); gap: 12px; }
.tile { background: var(--card); border: 1px solid var(--line); border-radius: 12px; padding: 12px 16px; }
.tile b { display: block; white-space: nowrap; font-size: 22px; font-weight: 600; letter-spacing: -.01em; font-variant-numeric: tabular-nums; }
.tile span { color: var(--soft); font-size: 13px; }
.about { display: grid; grid-template-columns: max-content 1fr; gap: 2px 18px; font-size: 14px; }
.about dt { color: var(--soft); } .about dd { margin: 0; overflow-wrap: anywhere; }
.legend { display: flex; flex-wrap: wrap; gap: 4px 16px; margin: 0 0 8px; font-size: 13px; color: var(--soft); }
.legend i { display: inline-block; width: 11px; height: 11px; border-radius: 3px; margin-right: 6px; vertical-align: -1px; }
.controls { display: flex; flex-wrap: wrap; gap: 10px; align-items: center; margin-bottom: 10px; font-size: 13px; color: var(--soft); }
select, button { font: inherit; color: var(--ink); background: var(--card); border: 1px solid var(--line); border-radius: 7px; padding: 3px 9px; }
button { cursor: pointer; } button:hover { background: var(--band); }
svg { display: block; width: 100%; overflow: hidden; }
svg text { fill: var(--soft); font-size: 12px; font-variant-numeric: tabular-nums; }
svg text.on { fill: #fff; font-size: 11px; pointer-events: none; }
svg text.strong { fill: var(--ink); font-weight: 600; }
.grid { stroke: var(--grid); } .axis { stroke: var(--line); } .cross { stroke: var(--faint); stroke-dasharray: 3 3; }
.zoom { touch-action: none; cursor: grab; } .zoom.held { cursor: grabbing; }
table { border-collapse: collapse; width: 100%; font-size: 14px; font-variant-numeric: tabular-nums; }
th { text-align: right; font-weight: 500; color: var(--soft); font-size: 13px; } th, td { padding: 5px 10px; border-bottom: 1px solid var(--line); white-space: nowrap; }
td { text-align: right; } th:first-child, td:first-child { text-align: left; padding-left: 0; } tr.sum td { font-weight: 600; }
tr.part td:first-child { padding-left: 20px; color: var(--soft); } tr.beside td { color: var(--soft); border-bottom: 0; }
.scroll { overflow-x: auto; }
.share { display: inline-block; height: 10px; border-radius: 2px; vertical-align: 0; }
.columns { display: grid; grid-template-columns: minmax(0, 5fr) minmax(0, 4fr); gap: 28px; align-items: start; }
@media (max-width: 820px) { .columns { grid-template-columns: minmax(0, 1fr); } main { padding: 20px 12px 48px; } section { padding: 16px 14px; } }
#tip { position: fixed; z-index: 9; pointer-events: none; background: var(--card); border: 1px solid var(--line); border-radius: 8px;
  box-shadow: 0 4px 18px var(--shade); padding: 7px 11px; font-size: 13px; max-width: 340px; visibility: hidden; }
#tip b { display: block; } #tip div { display: flex; justify-content: space-between; gap: 18px; color: var(--soft); }
#tip div span:last-child { color: var(--ink); font-variant-numeric: tabular-nums; }
footer { margin-top: 20px; color: var(--faint); font-size: 13px; }
)css";

}  // namespace lockstep::report
