"""The frame of the report: one page, one script of its own, nothing from a network."""

PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; img-src data:;
  style-src 'unsafe-inline'; script-src 'sha256-{digest}'">
<title>repalign: {name}</title>
<style>
:root {{ --ink: #1b1d21; --soft: #5b616b; --paper: #ffffff; --card: #f5f6f8; --line: #d9dce1;
  --shade: #0003;
  --warn: #8a4b00; --warn-card: #fff4e5; }}
@media (prefers-color-scheme: dark) {{
  :root {{ --ink: #e8eaed; --soft: #a3a9b3; --paper: #14161a; --card: #1d2026; --line: #363b44;
    --shade: #fff4;
    --warn: #ffc078; --warn-card: #2d2418; }}
}}
* {{ box-sizing: border-box; }}
body {{ margin: 0; background: var(--paper); color: var(--ink);
  font: 16px/1.5 system-ui, sans-serif; }}
main {{ max-width: 1200px; margin: 0 auto; padding: 1rem; }}
h1 {{ font-size: 1.5rem; margin: .5rem 0 0; overflow-wrap: anywhere; }}
h2 {{ font-size: 1.1rem; margin: 1.5rem 0 .5rem; overflow-wrap: anywhere; }}
summary {{ cursor: pointer; }}
summary h2 {{ display: inline; }}
.pair {{ border-top: 1px solid var(--line); padding: 1rem 0; }}
.pair:not([open]) {{ padding: .3rem 0; }}
.pair:not([open]) h2 {{ font-size: 1rem; font-weight: 500; }}
.size, .caption, figcaption, .detail {{ color: var(--soft); }}
.size {{ margin: .3rem 0; }}
.scroll {{ overflow-x: auto; scrollbar-width: thin; scrollbar-color: var(--soft) var(--line);
  background:
    linear-gradient(to left, var(--paper) 30%, transparent) right / 3rem 100% no-repeat local,
    linear-gradient(to left, var(--shade), transparent) right / 1rem 100% no-repeat scroll; }}
.scroll::-webkit-scrollbar {{ height: 10px; width: 10px; }}
.scroll::-webkit-scrollbar-thumb {{ background: var(--soft); border-radius: 5px; }}
.scroll::-webkit-scrollbar-track {{ background: var(--line); border-radius: 5px; }}
.tall {{ max-height: 26rem; overflow-y: auto; border-bottom: 1px solid var(--line); }}
.tall thead th {{ position: sticky; top: 0; background: var(--paper); z-index: 2; }}
table {{ border-collapse: separate; border-spacing: 0; font-variant-numeric: tabular-nums;
  font-size: .9rem; }}
th, td {{ padding: .2rem .6rem; text-align: right; white-space: nowrap; }}
th[scope=row], thead th:first-child {{ text-align: left; font-weight: inherit; position: sticky;
  left: 0; z-index: 1; background: var(--paper); border-right: 1px solid var(--line); }}
.tall thead th:first-child {{ z-index: 3; }}
th[scope=row] {{ white-space: normal; overflow-wrap: anywhere;
  min-width: min(46vw, 11rem); max-width: 46vw; }}
thead th {{ white-space: normal; vertical-align: bottom; }}
a {{ color: inherit; }}
input {{ font: inherit; width: min(100%, 24rem); padding: .3rem .6rem; color: inherit;
  background: var(--card); border: 1px solid var(--line); border-radius: .4rem; }}
[hidden] {{ display: none !important; }}
.wide {{ margin: 1rem 0; }}
.wide .scroll svg {{ min-width: 46rem; }}
.wide .scroll {{ background: none; }}
thead th {{ border-bottom: 1px solid var(--line); }}
.error {{ font-weight: 600; }}
.settings td, .settings th {{ text-align: left; white-space: normal; }}
.error th[scope=row], .detail th[scope=row] {{ min-width: 6rem; }}
.figures {{ display: grid; gap: 1rem; margin: 1rem 0;
  grid-template-columns: repeat(auto-fit, minmax(min(100%, 330px), 1fr)); }}
figure {{ margin: 0; padding: .75rem; background: var(--card); border-radius: .5rem; }}
figure svg {{ display: block; width: 100%; height: auto; }}
figure svg text {{ fill: currentColor; }}
figcaption {{ font-size: .9rem; text-align: center; }}
.warnings {{ background: var(--warn-card); color: var(--warn); padding: .2rem 1rem;
  border-radius: .5rem; margin-top: 1rem; overflow-wrap: anywhere; }}
.warnings h3 {{ font-size: 1rem; margin: .6rem 0 0; }}
.warnings ul {{ margin: .4rem 0; padding-left: 1.2rem; }}
</style>
</head>
<body>
<main>
<h1>{name}</h1>
<p class=size>{count} {noun} compared by repalign</p>
<p hidden><label>Show pairs with <input id=search type=search autocomplete=off
  placeholder="part of a name"></label> <span id=found class=detail role=status></span></p>
{overview}
{left_out}
{pairs}
<p class=caption>{caption}</p>
<details><summary><h2>Settings and versions</h2></summary>{settings}</details>
</main>
<script>{script}</script>
</body>
</html>
"""
