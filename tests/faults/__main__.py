"""The whole harness: ``python -m tests.faults --full`` from the root of the repository."""

import argparse
import os
import sys
import tempfile
import warnings
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(variable, "1")
os.environ["HF_HUB_OFFLINE"] = "1"

from tests.faults.counts import HEADING, Counts

Campaign = Callable[..., Counts]

# Name, how many in all, how many as a sample, and where the campaign is. What needs the fewest
# libraries comes first: a process forks the faster, the less it holds.
CAMPAIGNS: dict[str, tuple[int, int, str]] = {
    "stores": (6000, 80, "own:damage_stores"),
    "maps": (2000, 80, "own:damage_maps"),
    "results": (2500, 40, "own:damage_results"),
    "kept": (1500, 40, "own:damage_kept"),
    "texts": (1000, 20, "texts:inject_texts"),
    "kills": (1000, 12, "kills:kill_commands"),
    "stops": (280, 2, "kills:kill_long_commands"),
    "foreign": (3000, 90, "foreign:damage_foreign"),
    "checkpoints": (2500, 60, "checkpoints:damage_checkpoints"),
    "places": (77, 6, "places:odd_places"),
    "lines": (5000, 20, "lines:fuzz_lines"),
    "processes": (112, 3, "processes:compare_processes"),
}


def main() -> int:
    """Run campaigns and print what was counted; 1 if anything was wrong, failed or hung."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description=__doc__)
    parser.add_argument("campaigns", nargs="*", choices=[*CAMPAIGNS, []], help="default: all")
    parser.add_argument("--full", action="store_true", help="all of each, which takes an hour")
    parser.add_argument("--only", type=int, metavar="N", help="so many of each")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    print(HEADING)
    bad: list[str] = []
    for name in given.campaigns or CAMPAIGNS:
        whole, sample, place = CAMPAIGNS[name]
        module, function = place.split(":")
        run: Campaign = getattr(import_module(f"tests.faults.{module}"), function)
        with tempfile.TemporaryDirectory(prefix="faults-") as folder:
            count = given.only or (whole if given.full else sample)
            counts = run(Path(folder), count, seed=given.seed)
        print(counts.line(), flush=True)
        bad += [f"{counts.name}: {each}" for each in counts.bad]
    for each in bad:
        print(each.encode(errors="backslashreplace").decode())
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
