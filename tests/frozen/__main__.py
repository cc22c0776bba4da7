"""`python -m tests.frozen check` says which numbers a change moved; `update` keeps the new ones."""

import argparse
import json
import os
import sys
import tempfile
import time
from pathlib import Path

THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


def main() -> int:
    """Run the check, or keep what comes out now."""
    parser = argparse.ArgumentParser(prog="python -m tests.frozen", description=__doc__)
    parser.add_argument("action", choices=("check", "update"))
    parser.add_argument("--only", metavar="CASE", help="a single case, by its name")
    parser.add_argument("--most", type=int, default=8, help="lines shown of each case")
    arguments = parser.parse_args()
    if os.environ.get("OMP_NUM_THREADS") != "1":
        # before any library reads them: rows are the same to the last bit with one thread
        os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], one_thread())
    with tempfile.TemporaryDirectory() as folder:
        os.environ["REPALIGN_CACHE"] = str(Path(folder, "cache"))
        os.chdir(folder)
        return run(arguments.action, Path(folder), arguments.only, arguments.most)


def one_thread() -> dict[str, str]:
    """Return the environment with one thread for every library."""
    root = str(Path(__file__).parents[2])
    paths = [root, *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, **dict.fromkeys(THREADS, "1"), "PYTHONPATH": os.pathsep.join(paths)}


def run(action: str, folder: Path, only: str | None, most: int) -> int:
    """Make the outputs in a folder; compare them with those kept, or keep them."""
    from tests.frozen.outputs import FOLDER, differences, machine, make_outputs

    started, n_moved, n_expected = time.monotonic(), 0, 0
    here = machine()
    if action == "update":
        write(FOLDER / "machine.json", here)
    is_same_machine = here == json.loads((FOLDER / "machine.json").read_text())
    if not is_same_machine:
        sys.stdout.write("kept on another machine or with other libraries: wider tolerances\n")
    for case, values in make_outputs(folder, only):
        path = FOLDER / f"{case}.json"
        if action == "update":
            write(path, values)
            continue
        kept = json.loads(path.read_text())
        now = json.loads(json.dumps(values))
        every = list(differences(case, kept, now, is_same_machine=is_same_machine))
        moved = [each for each in every if not each.is_expected]
        n_moved, n_expected = n_moved + len(moved), n_expected + len(every) - len(moved)
        sys.stdout.write(
            f"{case}: {len(moved)} moved, {len(every) - len(moved)} intervals or counts\n"
        )
        for each in sorted(moved, key=lambda each: -each.size)[:most]:
            sys.stdout.write(f"  {each.place}: {each.kept} → {each.now} ({each.size:.1e})\n")
    seconds = time.monotonic() - started
    sys.stdout.write(f"{n_moved} values moved; {n_expected} intervals or counts; {seconds:.0f} s\n")
    return 1 if n_moved else 0


def write(path: Path, values: object) -> None:
    """Write values a line each, so that a change of one is a change of one line."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(values, indent=0, ensure_ascii=False, sort_keys=False) + "\n")


if __name__ == "__main__":
    sys.exit(main())
