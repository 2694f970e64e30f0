"""How the page looks: one style sheet in it, light or dark as the reader's screen is, and plain on paper."""

__all__ = ["STYLE"]

STYLE = """
:root {
  color-scheme: light dark;
  --paper: #ffffff; --card: #f6f7f9; --ink: #1b1f24; --soft: #59636e; --line: #d8dde3; --shade: #2b62c4;
  --fine: #1a7f4b; --look: #9a6200; --wrong: #c0262d;
  --c0: #3b73d1; --c1: #dd7a1c; --c2: #2a9d74; --c3: #c2477f; --c4: #7d62cf; --c5: #1c93a6;
  --c6: #a88a14; --c7: #7b8794;
  --on: #ffffff;
}
@media (prefers-color-scheme: dark) {
  :root {
    --paper: #14171b; --card: #1d2127; --ink: #e6e9ed; --soft: #9aa5b1; --line: #363d46; --shade: #7fb0ff;
    --fine: #5cc48e; --look: #e0aa4a; --wrong: #ff7b7f;
    --c0: #74a5f2; --c1: #f0a052; --c2: #5cc79f; --c3: #e583b1; --c4: #ab95ef; --c5: #56c3d4;
    --c6: #d3b84a; --c7: #a3aebb;
    --on: #14171b;
  }
}
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 2rem 1.25rem 4rem; max-width: 66rem; background: var(--paper); color: var(--ink);
  font: 15px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", sans-serif; }
h1 { font-size: 1.6rem; line-height: 1.25; margin: 0 0 .25rem; overflow-wrap: anywhere; }
h2 { font-size: 1.15rem; margin: 2.5rem 0 .5rem; padding-top: .75rem; border-top: 1px solid var(--line); }
h3 { font-size: 1rem; margin: 1.5rem 0 .25rem; }
p { margin: .4rem 0; max-width: 46rem; }
.soft { color: var(--soft); }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(13rem, 1fr)); gap: .75rem; margin: 1.25rem 0; }
.tile { background: var(--card); border-radius: 8px; padding: .7rem .9rem; }
.tile b { display: block; font-size: 1.35rem; line-height: 1.25; font-variant-numeric: tabular-nums; }
.tile span { color: var(--soft); font-size: .85rem; }
.findings { list-style: none; margin: 1rem 0; padding: 0; }
.findings li { display: grid; grid-template-columns: 4rem 1fr; align-items: baseline; padding: .45rem .75rem;
  margin: .35rem 0; border-left: 4px solid var(--line); background: var(--card); border-radius: 0 6px 6px 0;
  overflow-wrap: anywhere; }
.findings .fine { border-color: var(--fine); } .findings .look { border-color: var(--look); }
.findings .wrong { border-color: var(--wrong); }
.findings b { font-size: .75rem; letter-spacing: .04em; text-transform: uppercase; }
.findings .fine b { color: var(--fine); } .findings .look b { color: var(--look); }
.findings .wrong b { color: var(--wrong); }
.findings .advice { grid-column: 2; color: var(--soft); }
.plot { overflow-x: auto; margin: .75rem 0; }
.plot svg { display: block; width: 100%; min-width: 40rem; height: auto;
  font: 12px system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", sans-serif; }
svg text { fill: var(--ink); font-variant-numeric: tabular-nums; }
svg .axis, svg .value { fill: var(--soft); } svg .axis { font-size: 11px; }
svg .value { paint-order: stroke; stroke: var(--paper); stroke-width: 4px; }
svg .grid { stroke: var(--line); stroke-width: 1; } svg .lane { fill: var(--card); }
svg .mean { stroke: var(--ink); stroke-width: 1; stroke-dasharray: 4 3; }
svg .mark { fill: var(--on); font-size: 11px; font-weight: 600; pointer-events: none; }
svg .shade { fill: var(--shade); } svg .trail { fill: none; stroke: var(--c0); stroke-width: 2; }
svg .gap { fill: var(--paper); stroke: var(--ink); stroke-width: 1; }
svg .pale { opacity: .35; } svg .overlap { fill: var(--wrong); }
.c0 { fill: var(--c0); --own: var(--c0); } .c1 { fill: var(--c1); --own: var(--c1); }
.c2 { fill: var(--c2); --own: var(--c2); } .c3 { fill: var(--c3); --own: var(--c3); }
.c4 { fill: var(--c4); --own: var(--c4); } .c5 { fill: var(--c5); --own: var(--c5); }
.c6 { fill: var(--c6); --own: var(--c6); } .c7 { fill: var(--c7); --own: var(--c7); }
.legend { display: flex; flex-wrap: wrap; gap: .25rem 1rem; margin: .5rem 0; padding: 0; list-style: none;
  font-size: .85rem; color: var(--soft); }
.legend i { display: inline-block; min-width: 1.15rem; padding: 0 .25rem; margin-right: .35rem; border-radius: 3px;
  background: var(--own, transparent); color: var(--on);
  font: 600 11px/1.15rem system-ui, sans-serif; text-align: center; }
.legend .is-gap i { border: 1px solid var(--ink); }
.legend .is-pale i { background: var(--c7); opacity: .35; } .legend .is-overlap i { background: var(--wrong); }
details { margin: .5rem 0; } summary { cursor: pointer; color: var(--soft); font-size: .9rem; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; margin: .5rem 0; font-size: .85rem; font-variant-numeric: tabular-nums; }
caption { text-align: left; color: var(--soft); padding-bottom: .25rem; }
th, td { text-align: left; padding: .2rem .9rem .2rem 0; border-bottom: 1px solid var(--line); vertical-align: top;
  overflow-wrap: anywhere; }
thead th { color: var(--soft); font-weight: 500; white-space: nowrap; } tbody th { font-weight: 500; }
.number { text-align: right; white-space: nowrap; }
@media print {
  :root { --paper: #ffffff; --card: #f6f7f9; --ink: #000000; --soft: #444444; --line: #cccccc; }
  details > *:not(summary) { display: block; } h2 { break-after: avoid; } .plot, .tile, li { break-inside: avoid; }
}
"""
