"""The engine's section of benchmarks/README.md, written from stored figures."""

from pathlib import Path
from typing import Any

Figures = dict[str, Any]
BEGIN, END = "<!-- engine: begin -->", "<!-- engine: end -->"


def table(head: list[str], rows: list[list[Any]]) -> str:
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    lines += ["| " + " | ".join(str(cell) for cell in row) + " |" for row in rows]
    return "\n".join(lines)


def seconds(value: float) -> str:
    return f"{value:.3g} s"


def machine_line(about: Figures) -> str:
    busy = " (other work ran at the same time)" if about["load_before"] > 1 else ""
    return (
        f"{about['cpus']} cores, {about['threads']} threads for both sides, load "
        f"{about['load_before']:.1f} before the run{busy}; torch {about['torch']}, numpy "
        f"{about['numpy']}, scikit-learn {about['scikit-learn']}."
    )


def _memory_cells(name: str, theirs: Figures, ours: Figures) -> list[str]:
    a, b = theirs["max_rss_gb"], ours["peak_gb"]
    return [name, f"{a:.2f} GB", f"{b:.2f} GB", f"{a / b:.1f} ×"]


def pair_section(figures: Figures) -> str:
    ours, theirs, stages = figures["ours"], figures["yardstick"], figures["stages"]
    plain, plain_stages = figures["ours_without_ica"], figures["stages_without_ica"]
    without = theirs["total_s"] - theirs["time_s"]["ica"]
    rows = [
        ["wall time", theirs["total_s"], ours["seconds"], figures["speedup"]],
        ["processor time", theirs["total_cpu_s"], ours["cpu_seconds"], figures["cpu_speedup"]],
        ["without ICA", without, plain["seconds"], figures["speedup_without_ica"]],
        [
            "without ICA and the start of Python",
            without,
            plain_stages["seconds"],
            figures["speedup_without_ica_or_start"],
        ],
    ]
    cells = [[name, seconds(a), seconds(b), f"{ratio:.1f} ×"] for name, a, b, ratio in rows]
    cells.append(_memory_cells("peak memory", theirs, ours))
    for name, run in figures.get("presets", {}).items():
        spent = ("wall", "total_s", "seconds"), ("processor", "total_cpu_s", "cpu_seconds")
        for clock, theirs_in, ours_in in spent:
            a, b = theirs[theirs_in], run[ours_in]
            row = [f"{name}, {clock} time", seconds(a), seconds(b), f"{a / b:.1f} ×"]
            cells.append(row)
        cells.append(_memory_cells(f"{name}, peak memory", theirs, run))
    cells += [
        [f"error, {kind}", f"{theirs['error'][kind]:.7f}", f"{ours['errors'][kind]:.7f}", ""]
        for kind in ("permutation", "rigid", "linear", "ica")
    ]
    ica = "; ".join(
        f"{fit['passes']} passes to a gradient rms of {fit['gradient_rms']:.1e}, contrast "
        f"{fit['contrast']:.3f}"
        for fit in stages["ica"]
    )
    parts = ", ".join(f"{name} {value:.2f}" for name, value in stages["stages"].items())
    return "\n\n".join(
        [
            "### The four maps and the diameter, 50,000 × 384, from files to table",
            machine_line(figures["machine"]),
            table(["", "script", "`repalign compare`", "ratio"], cells),
            f"The command's times include the start of Python and its imports, the script's do "
            f"not. Largest relative difference of permutation, rigid, linear and diameter: "
            f"{figures['largest_difference']:.1e}. ICA: {ica}; the script's stopped after "
            f"{theirs['ica']['n_iter']} iterations. Seconds by stage of the engine: {parts}.",
        ]
    )


def diameter_section(figures: Figures) -> str:
    rows = [
        [
            f"{r['n']:,}",
            r["kind"],
            seconds(r["ours"]),
            seconds(r["cdist"]),
            f"{r['cdist'] / r['ours']:.1f} ×",
            seconds(r["pdist"]) if "pdist" in r else "",
            f"{r['difference']:.0e}",
        ]
        for r in figures["rows"]
    ]
    return "\n\n".join(
        [
            "### Exact diameter, 384 columns, single precision",
            machine_line(figures["machine"]),
            table(
                [
                    "rows",
                    "data",
                    "repalign",
                    "torch.cdist in blocks",
                    "ratio",
                    "scipy pdist",
                    "relative difference to cdist",
                ],
                rows,
            ),
            "torch.cdist is single precision throughout; the difference is its rounding.",
        ]
    )


def ica_section(figures: Figures) -> str:
    rows = []
    for row in figures["rows"]:
        for name in ("ours", "picard", "sklearn"):
            if name in row:
                fit = row[name]
                rows.append(
                    [
                        f"{row['n']:,}",
                        "repalign" if name == "ours" else name,
                        seconds(fit["seconds"]),
                        f"{fit['seconds'] / row['ours']['seconds']:.1f} ×",
                        f"{fit['gradient_rms']:.1e}",
                        f"{fit['contrast']:.3f}",
                    ]
                )
    return "\n\n".join(
        [
            "### ICA alone, 384 columns",
            machine_line(figures["machine"]),
            table(["rows", "solver", "time", "of repalign's", "gradient rms", "contrast"], rows),
            "picard: python-picard, orthogonal and extended, single precision; sklearn: FastICA "
            "with its default 200 iterations in double precision. Lower contrast is better.",
        ]
    )


def size_section(figures: Figures) -> str:
    rows = [
        [
            f"{r['n']:,}",
            r["d"],
            seconds(r["seconds"]),
            seconds(r["gemm_seconds"]),
            f"{r['seconds'] / r['gemm_seconds']:.2f}",
            f"{r['peak_gb']:.2f} GB",
        ]
        for r in figures["rows"]
    ]
    return "\n\n".join(
        [
            "### Cost against size, four maps without ICA and the exact diameter",
            machine_line(figures["machine"]),
            table(["rows", "columns", "time", "its products alone", "ratio", "peak memory"], rows),
            f'Fitted: time ∝ n^{figures["exponent_n"]:.2f} · d^{figures["exponent_d"]:.2f}. "Its '
            'products alone" are three Gram products and two maps applied, in double precision, at '
            "the rate measured on the spot.",
        ]
    )


def memory_section(figures: Figures) -> str:
    capped, loaded = figures["capped"], figures["loaded"]
    top = ", ".join(f"{key} {spent:.1f} s" for key, spent in figures["profile"]["top"].items())
    rows = [
        [
            name,
            seconds(run["seconds"]),
            f"{run['peak_gb']:.2f} GB",
            f"{run['errors']['linear']:.9f}",
            f"{run['diameter']:.9f}",
        ]
        for name, run in (("from disk, capped", capped), ("in memory", loaded))
    ]
    return "\n\n".join(
        [
            "### A million rows of 384 columns from disk, within 2 GiB",
            machine_line(figures["machine"]),
            table(["", "time", "peak memory", "linear error", "diameter"], rows),
            f"Largest relative difference of any error or the diameter: "
            f"{figures['largest_difference']:.1e}.",
            f"Under torch's profiler {figures['profile']['product_share']:.0%} of the time went "
            f"into matrix products; the whole took "
            f"{capped['seconds'] / figures['gemm_seconds']:.2f} times what its "
            f"products alone take at the rate measured on the spot "
            f"({figures['gemm_seconds']:.1f} s). Most time by operation: {top}.",
        ]
    )


SECTIONS = {
    "pair": pair_section,
    "diameter": diameter_section,
    "ica": ica_section,
    "size": size_section,
    "memory": memory_section,
}


def write_report(stored: Figures, path: Path) -> str:
    """Put the engine's section into the file, keeping what else it says; return the section."""
    parts = [SECTIONS[name](stored[name]) for name in SECTIONS if name in stored]
    head = "## Engine\n\n`python benchmarks/engine.py`; figures in `benchmarks/engine.json`."
    section = "\n\n".join([BEGIN, head, *parts, END])
    text = path.read_text() if path.exists() else "# Benchmarks\n"
    if BEGIN in text:
        before, rest = text.split(BEGIN, 1)
        text = before + section + rest.split(END, 1)[1]
    else:
        text = text.rstrip() + "\n\n" + section + "\n"
    path.write_text(text)
    return section
