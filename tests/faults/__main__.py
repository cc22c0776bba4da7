"""The whole harness: ``python -m tests.faults --full`` from the root of the repository."""

import argparse
import os
import sys
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ["HF_HUB_OFFLINE"] = "1"

from tests.faults.counts import HEADING, Counts
from tests.faults.drivers import damage_stores, kill_writers
from tests.faults.lines import fuzz_lines, make_files
from tests.faults.maps import damage_maps
from tests.faults.results import damage_results
from tests.faults.texts import inject_texts

# Name, how many in all, how many as a sample, and the campaign.
CAMPAIGNS: dict[str, tuple[int, int, Callable[[Path, int, int], Counts]]] = {
    "results": (5000, 150, lambda f, n, s: damage_results(f, n, drawn_every=20, seed=s)),
    "maps": (5000, 150, lambda f, n, s: damage_maps(f, n, seed=s)),
    "stores": (6000, 150, lambda f, n, s: damage_stores(f, n, seed=s)),
    "texts": (1000, 50, lambda f, n, s: inject_texts(n, seed=s)),
    "lines": (5000, 32, lambda f, n, s: fuzz_lines(_files(f), n, seed=s)),
    "kills": (200, 5, lambda f, n, s: kill_writers(f, n, seed=s)),
}


def main() -> int:
    """Run campaigns and print what was counted; 1 if anything was wrong, failed or hung."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description=__doc__)
    parser.add_argument("campaigns", nargs="*", choices=[*CAMPAIGNS, []], help="default: all")
    parser.add_argument("--full", action="store_true", help="all of each, which takes an hour")
    parser.add_argument("-n", type=int, help="this many of each")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    print(HEADING)
    bad: list[str] = []
    for name in given.campaigns or CAMPAIGNS:
        whole, sample, run = CAMPAIGNS[name]
        with tempfile.TemporaryDirectory(prefix="faults-") as folder:
            count = given.n or (whole if given.full else sample)
            counts = run(Path(folder), count, given.seed)
        print(counts.line(), flush=True)
        bad += [f"{counts.name}: {each}" for each in counts.bad]
    for each in bad:
        print(each)
    return 1 if bad else 0


def _files(folder: Path) -> Path:
    files = folder / "files"
    files.mkdir()
    make_files(files)
    return files


if __name__ == "__main__":
    sys.exit(main())
