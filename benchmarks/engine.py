"""The engine against what a user would write instead: same arrays, same threads, same run.

    python benchmarks/engine.py [--only pair,diameter,ica,size,memory] [--yardstick PATH]

Each section prints its table and stores its figures in benchmarks/engine.json; at the end the
section "Engine" of benchmarks/README.md is written from all figures stored so far.
"""

import argparse
import json
import os
import platform
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))
YARDSTICK = HERE.parent / "../shared/bench/baseline_table1.py"
FIGURES = HERE / "engine.json"
PAPER_MAPS = ("permutation", "rigid", "linear")

Figures = dict[str, Any]


def peak_gb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6


def audit(source: str, target: str, *, ica: bool, memory_bytes: int, in_memory: bool) -> Figures:
    """From two files to the table of errors, timed; runs in a process of its own."""
    from repalign.core.ica.components import match_components
    from repalign.core.ica.fit import fit_ica
    from repalign.core.maps import fit_map, ica_map
    from repalign.core.moments import pair_moments
    from repalign.core.row_errors import row_errors
    from repalign.core.rows import ArrayRows
    from repalign.core.scale import diameter

    began, began_cpu = time.perf_counter(), time.process_time()
    stages: dict[str, float] = {}

    def staged(name: str, work: Callable[[], Any]) -> Any:
        start = time.perf_counter()
        result = work()
        stages[name] = time.perf_counter() - start
        return result

    mode = None if in_memory else "r"
    x, y = (ArrayRows(np.load(path, mmap_mode=mode)) for path in (source, target))
    (moments,) = staged("moments", lambda: pair_moments(x, y, memory_bytes=memory_bytes))
    kinds = ("mean", *PAPER_MAPS)
    maps = staged("maps", lambda: [fit_map(kind, moments) for kind in kinds])
    fits = []
    if ica:
        for rows, mean, scatter in (
            (x, moments.mean_x, moments.sxx),
            (y, moments.mean_y, moments.syy),
        ):
            covariance = scatter / moments.n
            fits.append(
                staged(
                    f"ica {len(fits) + 1}",
                    lambda rows=rows, mean=mean, covariance=covariance: fit_ica(
                        rows, mean=mean, covariance=covariance, memory_bytes=memory_bytes
                    ),
                )
            )
        matched = match_components(moments, *fits)
        maps.append(ica_map(moments, *fits, matched))
    errors = staged("errors", lambda: row_errors(x, y, maps, memory_bytes=memory_bytes).mean(1))
    reach = staged(
        "diameter", lambda: diameter(y, centre=moments.mean_y, memory_bytes=memory_bytes)
    )
    return {
        "errors": {m.kind: float(e) / reach.value for m, e in zip(maps, errors, strict=True)},
        "diameter": reach.value,
        "exact": reach.exact,
        "seconds": time.perf_counter() - began,
        "cpu_seconds": time.process_time() - began_cpu,
        "stages": stages,
        "peak_gb": peak_gb(),
        "ica": [
            {
                "passes": fit.n_iter,
                "converged": fit.converged,
                "gradient_rms": fit.gradient_rms,
                "contrast": fit.contrast_value,
            }
            for fit in fits
        ],
        "mean_correlation": float(matched.value.mean()) if ica else None,
    }


def profiled(work: Callable[[], Figures]) -> Figures:
    """Run under torch's profiler, and add the share of the time that was spent in products."""
    import torch
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CPU]) as recorded:
        figures = work()
    products = {"aten::mm", "aten::addmm", "aten::addmm_", "aten::bmm"}
    spent = sum(e.self_cpu_time_total for e in recorded.key_averages() if e.key in products)
    top = sorted(recorded.key_averages(), key=lambda e: -e.self_cpu_time_total)[:6]
    figures["product_share"] = spent / 1e6 / figures["seconds"]
    figures["top"] = {e.key: e.self_cpu_time_total / 1e6 for e in top}
    figures["threads"] = torch.get_num_threads()
    return figures


def run_audit(source: Path, target: Path, *options: str) -> Figures:
    """Run ``audit`` in a fresh process, so that its peak of memory is its own."""
    command = [sys.executable, __file__, "--audit", str(source), str(target), *options]
    start = time.perf_counter()
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    figures = json.loads(done.stdout)
    figures["process_seconds"] = time.perf_counter() - start
    return figures


def run_command(source: Path, target: Path, *options: str) -> Figures:
    """Run ``repalign compare`` as a user would, start of the process included, nothing kept."""
    command = [sys.executable, "-m", "repalign", "compare", str(source), str(target)]
    command += [*options, "--no-cache", "-f", "json"]
    start = time.perf_counter()
    with (
        tempfile.TemporaryFile() as output,
        subprocess.Popen(
            command, stdout=output, stderr=subprocess.DEVNULL, cwd=HERE.parent
        ) as process,
    ):
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        seconds = time.perf_counter() - start
        output.seek(0)
        records = json.load(output)["records"]
    return {
        "seconds": seconds,
        "cpu_seconds": usage.ru_utime + usage.ru_stime,
        "peak_gb": usage.ru_maxrss / 1e6,
        "errors": {record["map"]: record["error"] for record in records},
        "diameter": records[0]["diameter"],
    }


# What users type: with held-out rows, nulls and intervals, or without most of them.
PRESETS = {"default": (), "--quick": ("--quick",)}


def contrast_of(unmixed: np.ndarray) -> tuple[float, float]:
    """Gradient rms and contrast of unit-variance components, as the engine reports them."""
    from repalign.core.ica.contrast import CONTRASTS
    from repalign.core.ica.data import WhitenedRows
    from repalign.core.ica.diagnostics import report_components
    from repalign.core.linalg import Whitening
    from repalign.core.rows import ArrayRows

    rank = unmixed.shape[1]
    identity = np.eye(rank)
    as_is = Whitening(np.zeros(rank), identity, identity, np.ones(rank), 0, 0.0)
    data = WhitenedRows(ArrayRows(unmixed), as_is, "cpu", None)
    report = report_components(data, CONTRASTS["logcosh"], identity)
    return report.gradient_rms, report.contrast_value


def bench_pair(yardstick: Path, folder: Path) -> Figures:
    """The yardstick's own pair, end to end, and without ICA."""
    size = ("--synthetic", "50000", "384", "--seed", "0")
    base = [sys.executable, str(yardstick)]
    subprocess.run(
        [*base, *size, "--stages", "none", "--save-synthetic", str(folder)],
        check=True,
        capture_output=True,
    )
    files = folder / "a.npy", folder / "b.npy"
    bare = ("--quick", "--halves", "0", "--maps")
    ours = run_command(*files, *bare, "permutation,rigid,linear,ica")
    plain = run_command(*files, *bare, "permutation,rigid,linear")
    as_they_are = {name: run_command(*files, *flags) for name, flags in PRESETS.items()}
    stages = run_audit(*files, "--ica")
    plain_stages = run_audit(*files)
    done = subprocess.run([*base, *map(str, files)], check=True, capture_output=True, text=True)
    theirs = json.loads(done.stdout)
    without_ica = theirs["total_s"] - theirs["time_s"]["ica"]
    return {
        "ours": ours,
        "ours_without_ica": plain,
        "presets": as_they_are,
        "stages": stages,
        "stages_without_ica": plain_stages,
        "yardstick": theirs,
        "speedup": theirs["total_s"] / ours["seconds"],
        "cpu_speedup": theirs["total_cpu_s"] / ours["cpu_seconds"],
        "memory_ratio": theirs["max_rss_gb"] / ours["peak_gb"],
        "speedup_without_ica": without_ica / plain["seconds"],
        "speedup_without_ica_or_start": without_ica / plain_stages["seconds"],
        "largest_difference": max(
            *(abs(ours["errors"][k] / theirs["error"][k] - 1) for k in PAPER_MAPS),
            abs(ours["diameter"] / theirs["diameter"] - 1),
        ),
    }


def cloud(kind: str, n: int, d: int = 384) -> np.ndarray:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((n, d), dtype=np.float32)
    if kind == "sphere":
        x /= np.linalg.norm(x, axis=1, keepdims=True)
    if kind == "power law":
        x *= np.arange(1, d + 1, dtype=np.float32) ** -0.5
    return x


def cdist_diameter(x: np.ndarray) -> float:
    import torch

    rows = torch.from_numpy(x - x.mean(0))
    return max(
        float(torch.cdist(rows[i : i + 2048], rows).max()) for i in range(0, len(rows), 2048)
    )


def timed(work: Callable[[], Any]) -> tuple[float, Any]:
    start = time.perf_counter()
    result = work()
    return time.perf_counter() - start, result


def bench_diameter(yardstick: Path, folder: Path) -> Figures:
    """Exact diameter against torch.cdist in blocks and, at the smallest size, scipy's pdist."""
    from scipy.spatial.distance import pdist

    from repalign.core.rows import ArrayRows
    from repalign.core.scale import diameter

    diameter(ArrayRows(cloud("sphere", 4000)))
    rows = []
    for n in (20_000, 50_000, 100_000):
        for kind in ("power law", "sphere", "gaussian"):
            x = cloud(kind, n)
            ours, reach = timed(lambda x=x: diameter(ArrayRows(x)))
            theirs, other = timed(lambda x=x: cdist_diameter(x))
            row = {"n": n, "kind": kind, "ours": ours, "cdist": theirs, "exact": reach.exact}
            row["difference"] = abs(other / reach.value - 1)
            if n == 20_000 and kind == "power law":
                row["pdist"], exact = timed(lambda x=x: float(pdist(x).max()))
                row["pdist_difference"] = abs(exact / reach.value - 1)
            rows.append(row)
            print(row, flush=True)
    return {"rows": rows, "worst_speedup": min(r["cdist"] / r["ours"] for r in rows)}


def bench_ica(yardstick: Path, folder: Path) -> Figures:
    """ICA alone, to the same gradient, against python-picard; and scikit-learn's 200 iterations."""
    import warnings

    from picard import picard
    from sklearn.decomposition import FastICA

    from repalign.core.ica.fit import fit_ica
    from repalign.core.ica.settings import IcaSettings
    from repalign.core.moments import pair_moments
    from repalign.core.rows import ArrayRows

    sys.path.insert(0, str(yardstick.resolve().parent))
    from baseline_table1 import synthetic

    rows = []
    for n in (20_000, 100_000):
        x = synthetic(n, 384, 0)[0]

        def ours(x: np.ndarray = x, n: int = n) -> Any:
            (moments,) = pair_moments(ArrayRows(x), ArrayRows(x[:, :1]))
            settings = IcaSettings(n_fit_rows=n)
            return fit_ica(
                ArrayRows(x), mean=moments.mean_x, covariance=moments.sxx / n, settings=settings
            )

        seconds, fit = timed(ours)
        row: Figures = {
            "n": n,
            "ours": {
                "seconds": seconds,
                "passes": fit.n_iter,
                "gradient_rms": fit.gradient_rms,
                "contrast": fit.contrast_value,
                "converged": fit.converged,
            },
        }
        print(row, flush=True)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            # Its tolerance is on the largest entry, about ten times the rms at the end.
            seconds, found = timed(
                lambda x=x: picard(
                    x.T, ortho=True, extended=True, max_iter=400, tol=1.5e-4, random_state=0
                )
            )
        rms, contrast = contrast_of(np.ascontiguousarray(found[2].T))
        row["picard"] = {"seconds": seconds, "gradient_rms": rms, "contrast": contrast}
        print(row["picard"], flush=True)
        if n == 100_000:
            estimator = FastICA(whiten="unit-variance", random_state=0)
            fit_sklearn = estimator.fit_transform
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                seconds, sources = timed(partial(fit_sklearn, x.astype(np.float64)))
            rms, contrast = contrast_of(sources)
            row["sklearn"] = {
                "seconds": seconds,
                "iterations": int(estimator.n_iter_),
                "gradient_rms": rms,
                "contrast": contrast,
            }
        rows.append(row)
    return {"rows": rows}


def write_power_law(path: Path, n: int, d: int, seed: int) -> None:
    """Rows of power-law spectrum on disk, never all in memory; pairs share the seed's rows."""
    rng = np.random.default_rng(0)
    turn = np.linalg.qr(np.random.default_rng(seed).standard_normal((d, d)))[0]
    scale = np.arange(1, d + 1) ** -0.5
    target = (scale[:, None] * turn).astype(np.float32)
    out = np.lib.format.open_memmap(path, mode="w+", dtype=np.float32, shape=(n, d))
    for start in range(0, n, 20_000):
        stop = min(start + 20_000, n)
        out[start:stop] = rng.standard_normal((stop - start, d), dtype=np.float32) @ target
    out.flush()


def gemm_seconds(n: int, d: int) -> float:
    """Time that the necessary products alone take: three Gram products, two maps applied."""
    import torch

    rows = 16_384
    a = torch.randn(rows, d, dtype=torch.float64)
    b = torch.randn(d, 2 * d, dtype=torch.float64)
    out = torch.zeros(d, d, dtype=torch.float64)

    def block() -> None:
        for _ in range(3):
            out.addmm_(a.T, a)
        a @ b

    block()
    return min(timed(block)[0] for _ in range(3)) * n / rows


def bench_size(yardstick: Path, folder: Path) -> Figures:
    """Cost of the audit without ICA against rows and columns."""
    rows = []
    for d in (128, 384, 768):
        for n in (10_000, 100_000, 1_000_000):
            files = folder / "x.npy", folder / "y.npy"
            for seed, path in enumerate(files):
                write_power_law(path, n, d, seed)
            figures = run_audit(*files)
            row = {"n": n, "d": d, "seconds": figures["seconds"], "stages": figures["stages"]}
            row |= {"peak_gb": figures["peak_gb"], "gemm_seconds": gemm_seconds(n, d)}
            rows.append(row)
            print(row, flush=True)
    design = np.array([[1.0, np.log(r["n"]), np.log(r["d"])] for r in rows])
    fitted = np.linalg.lstsq(design, np.log([r["seconds"] for r in rows]), rcond=None)[0]
    return {"rows": rows, "exponent_n": fitted[1], "exponent_d": fitted[2]}


def bench_memory(yardstick: Path, folder: Path) -> Figures:
    """A million rows from disk within two gibibytes, against the same in memory."""
    files = folder / "x.npy", folder / "y.npy"
    for seed, path in enumerate(files):
        write_power_law(path, 1_000_000, 384, seed)
    capped = run_audit(*files, "--memory", str(3 * 2**29))
    loaded = run_audit(*files, "--in-memory", "--memory", str(8 * 2**30))
    profile = run_audit(*files, "--profile", "--memory", str(3 * 2**29))
    pairs = [(capped["errors"][k], loaded["errors"][k]) for k in ("mean", *PAPER_MAPS)]
    pairs.append((capped["diameter"], loaded["diameter"]))
    scale = capped["errors"]["mean"]
    return {
        "capped": capped,
        "loaded": loaded,
        "profile": profile,
        "gemm_seconds": gemm_seconds(1_000_000, 384),
        "largest_difference": max(abs(a - b) / max(abs(b), 1e-6 * scale) for a, b in pairs),
    }


SECTIONS = {
    "pair": bench_pair,
    "diameter": bench_diameter,
    "ica": bench_ica,
    "size": bench_size,
    "memory": bench_memory,
}


def machine() -> Figures:
    import scipy
    import sklearn
    import torch

    return {
        "cpus": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "load_before": os.getloadavg()[0],
        "platform": platform.platform(),
        "numpy": np.__version__,
        "scipy": scipy.__version__,
        "scikit-learn": sklearn.__version__,
        "torch": torch.__version__,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default=",".join(SECTIONS))
    parser.add_argument("--yardstick", type=Path, default=YARDSTICK)
    parser.add_argument("--audit", nargs=2, help=argparse.SUPPRESS)
    parser.add_argument("--ica", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--in-memory", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--profile", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--memory", type=int, default=2**31, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.audit:
        work = partial(
            audit,
            *options.audit,
            ica=options.ica,
            memory_bytes=options.memory,
            in_memory=options.in_memory,
        )
        print(json.dumps(profiled(work) if options.profile else work()))
        return
    stored = json.loads(FIGURES.read_text()) if FIGURES.exists() else {}
    for name in options.only.split(","):
        about = machine()
        with tempfile.TemporaryDirectory() as folder:
            stored[name] = SECTIONS[name](options.yardstick, Path(folder)) | {"machine": about}
        FIGURES.write_text(json.dumps(stored, indent=1) + "\n")
    from engine_report import write_report

    print(write_report(stored, HERE / "README.md"))


if __name__ == "__main__":
    main()
