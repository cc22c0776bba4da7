"""The frame of the report: one page, no script, nothing from a network."""

PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>repalign: {name}</title>
<style>
:root {{ --ink: #1b1d21; --soft: #5b616b; --paper: #ffffff; --card: #f5f6f8; --line: #d9dce1;
  --warn: #8a4b00; --warn-card: #fff4e5; }}
@media (prefers-color-scheme: dark) {{
  :root {{ --ink: #e8eaed; --soft: #a3a9b3; --paper: #14161a; --card: #1d2026; --line: #363b44;
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
.size, .caption, figcaption, .detail {{ color: var(--soft); }}
.size {{ margin: .3rem 0; }}
.scroll {{ overflow-x: auto; }}
table {{ border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: .9rem; }}
th, td {{ padding: .2rem .6rem; text-align: right; white-space: nowrap; }}
th[scope=row] {{ text-align: left; font-weight: inherit; position: sticky; left: 0;
  background: var(--paper); }}
thead th {{ border-bottom: 1px solid var(--line); }}
.error {{ font-weight: 600; }}
.settings td, .settings th {{ text-align: left; white-space: normal; }}
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
{models}
{pairs}
<p class=caption>{caption}</p>
<details><summary><h2>Settings and versions</h2></summary>{settings}</details>
</main>
</body>
</html>
"""
