"""The changes that ARCHITECTURE.md promises to be small, made in a copy of the package.

Every change edits the files that its row names and no others, and then the tool knows the new
thing: on the command line, in its help, in its results.
"""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePath

import pytest

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
NEW = ""
OLD = ROOT / "tests" / "data" / "stores" / "v1.h5"

START = """
import sys
import numpy as np
from typer.testing import CliRunner
from repalign.cli.app import app

def run(*words):
    ran = CliRunner().invoke(app, words)
    assert ran.exit_code == 0, (ran.output, ran.exception)
    return ran.stdout

rng = np.random.default_rng(0)
x = rng.laplace(size=(200, 3))
np.save("x.npy", x)
np.save("y.npy", x @ rng.standard_normal((3, 3)))
np.savez("factors.npz", shape=rng.integers(0, 3, 200))
"""


@dataclass(frozen=True)
class Change:
    """One row: files with what is replaced in them, and what holds afterwards.

    Text that does not hold what it replaces is put before it.
    """

    edits: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    then: str = ""


CHANGES = {
    "a kind of map": Change(
        {
            "core/maps/kinds.py": (
                '    MapKind("ica", ',
                '    MapKind("affine", "Affine ↓", "linear again", is_supervised=True),\n',
            ),
            "core/maps/fitting.py": (
                '    "ica": partial(',
                '    "affine": _closed_form(fit_linear),\n',
            ),
        },
        """
assert "affine" in run("compare", "--help")
assert "Affine" in run("compare", "x.npy", "y.npy", "-f", "table", "--maps", "rigid,affine")
assert "affine" in run("compare", "x.npy", "y.npy", "-f", "csv", "--maps", "affine")
assert "Affine" in run("compare", "x.npy", "y.npy", "-f", "latex", "--maps", "rigid,affine")
""",
    ),
    "a measure of similarity": Change(
        {
            "core/similarity/measures.py": (
                '    Measure(\n        "linear-cka",',
                '    Measure("half-cka", "½ CKA", "↑", "half", lambda p: p.linear_cka() / 2, '
                "RIGID),\n",
            )
        },
        """
assert "half-cka" in " ".join(run("compare", "--help").split())
rows = [each.split(",") for each in run(
    "compare", "x.npy", "x.npy", "--maps", "none", "--measures", "half-cka", "-f", "csv"
).splitlines()]
row = dict(zip(rows[0], rows[1]))
assert row["measure"] == "half-cka" and abs(float(row["value"]) - 0.5) < 1e-12, row
assert "½ CKA ↑" in run("compare", "x.npy", "y.npy", "--measures", "half-cka", "-f", "table")
""",
    ),
    "a library of models": Change(
        {
            "models/naming/loaders.py": (
                '        LoaderEntry("mae"',
                '        LoaderEntry("new", "new:name", parse_architecture, f"{_ROOM}.new", ()),\n',
            ),
            "models/loaders/new.py": (
                NEW,
                "from repalign.models.loaders.loader import Loader\n\nLOADER = Loader()\n",
            ),
        },
        """
from repalign.models.loaders.loader import loader_of
from repalign.models.naming.loaders import parse_model
assert parse_model("new:thing").name == "thing"
assert type(loader_of("new")).__name__ == "Loader"
ran = CliRunner().invoke(app, ["extract", "new:thing", "--data", "builtin:digits", "-o", "x.h5"])
assert "new:thing names no model that can be loaded" in ran.output, ran.output
ran = CliRunner().invoke(app, ["extract", "nothing", "--data", "builtin:digits", "-o", "x.h5"])
assert "new:name" in " ".join(ran.output.split())
""",
    ),
    "a foreign format": Change(
        {
            "store/foreign/formats.py": (
                '    ForeignFormat(\n        "`.npz`"',
                '    ForeignFormat("`.vec`", "new:read_vec", "", "", IN_PLACE, (".vec",)),\n',
            ),
            "store/foreign/new.py": (
                NEW,
                "from repalign.store.foreign.numpy_files import read_npy as read_vec\n",
            ),
        },
        """
import os
os.rename("y.npy", "y.vec")
assert "y.vec" in run("compare", "x.npy", "y.vec", "--maps", "rigid", "-f", "csv")
assert ".vec" in run("compare", "--help")
""",
    ),
    "a disentanglement score": Change(
        {
            "core/factors/kinds.py": (
                "GROUPS = (\n",
                "def half(evidence):\n"
                "    from repalign.core.score import Score\n"
                "    return Score('half', 0.5)\n\n\n"
                "GROUPS = (\n    ScoreGroup('half', (ScoreKind('half', 'half', half),)),\n",
            )
        },
        """
shown = run("disentangle", "x.npy", "--factors", "factors.npz", "--scores", "half")
assert "raw,half,0.5," in shown, shown
""",
    ),
    "a shuffle of pairs, as a null": Change(
        {
            "core/inference/kinds.py": (
                '    NullKind(\n        "Gaussian twins"',
                "    NullKind('again', 'compare', 'error', 'shuffled again', 'again', False,\n"
                "        'Shuffle again.', p_value='p_again', p_line='p again'),\n",
            ),
            "workflows/compare/settings.py": (
                "    n_gaussian: int | None",
                '    again: bool = null_option("again", TRUST)\n',
            ),
            "workflows/compare/nulls.py": (
                '    "beyond groups": ',
                '    "again": _whole_groups,\n',
            ),
        },
        """
assert "Shuffle again." in run("compare", "--help")
asked = ("compare", "x.npy", "y.npy", "--maps", "rigid", "--null", "19", "--again")
rows = [each.split(",") for each in run(*asked, "-f", "csv").splitlines()]
assert [row[rows[0].index("p_again")] for row in rows[1:]] == ["0.05", "0.05"], rows
table = run(*asked, "-f", "table")
assert "p again" in table and "p again: shuffled again" in table, table
""",
    ),
    "a format of results": Change(
        {
            "cli/formats.py": (
                '        Format("json"',
                '        Format("lines", ".jl", "lines", lambda shown: repr(shown.records())),\n',
            )
        },
        """
assert "'map': 'rigid'" in run("compare", "x.npy", "y.npy", "--maps", "rigid", "-f", "lines")
run("compare", "x.npy", "y.npy", "--maps", "rigid", "--output", "x.jl")
assert "'map': 'rigid'" in open("x.jl").read()
assert "InfoE" in run("disentangle", "x.npy", "--factors", "factors.npz", "-f", "lines")
assert "lines" in run("compare", "--help")
""",
    ),
    "an option of a comparison": Change(
        {
            "workflows/compare/settings.py": (
                "    seed: int = option(",
                '    cats: int = option(3, "Number of cats.", least=1, recorded=True)\n',
            )
        },
        """
import repalign
assert "Number of cats." in run("compare", "--help")
rows = [each.split(",") for each in run(
    "compare", "x.npy", "y.npy", "--maps", "rigid", "--cats", "7", "-f", "csv"
).splitlines()]
assert rows[1][rows[0].index("cats")] == "7"
try:
    repalign.CompareSettings(cats=0)
except repalign.InputError as error:
    assert "cats" in str(error)
else:
    raise AssertionError("accepted")
""",
    ),
    "a cluster": Change(
        {},
        """
import pickle
import repalign
class Elsewhere:
    sent = 0
    def map(self, units, machine):
        quiet = pickle.loads(pickle.dumps(machine))
        self.sent += len(units)
        return [pickle.loads(pickle.dumps(pickle.loads(pickle.dumps(u)).run(quiet))) for u in units]
there = Elsewhere()
here = repalign.compare("x.npy", "y.npy").to_frame()
assert repalign.compare("x.npy", "y.npy", executor=there).to_frame().equals(here)
# moments of two spaces, whole and quartered ten times, two starts of each on all rows and on the
# rest, one on each half and quarter, two spreads, the pair
assert there.sent == 2 * (1 + 10) + 8 + 2 * 6 * 10 + 2 + 1
""",
    ),
    "an experiment": Change(
        {
            "experiments/reproduce/registry.py": ('    "gaussian_null",\n', '    "new",\n'),
            "experiments/papers/new.py": (
                NEW,
                "from dataclasses import replace\n\n"
                "from repalign.experiments.papers import gaussian_null\n"
                "from repalign.experiments.reproduce.experiment import Measured\n\n\n"
                "def measure(case, seed, work):\n"
                "    return [Measured(gaussian_null.SAME, 0.25 + seed)]\n\n\n"
                "EXPERIMENT = replace(gaussian_null.EXPERIMENT, name='new', measure=measure,\n"
                "                     sentences=lambda result: ['so'])\n",
            ),
        },
        """
assert "new" in run("reproduce", "--list")
shown = run("reproduce", "new", "--seeds", "2", "-o", "out", "-f", "table")
assert "0.750" in shown and "so" in shown, shown
assert open("out/figure.png", "rb").read().startswith(b"\\x89PNG")
""",
    ),
    "a size of chunks": Change(
        {
            "store/format/schema.py": (
                "def chunk_rows(",
                "_CHUNK_BYTES = 2**19\nFORMAT_VERSION = 2\n\n\n",
            )
        },
        """
import repalign
wide = rng.standard_normal((3000, 256)).astype(np.float32)
repalign.write_store("wide.h5", wide)
import h5py
with h5py.File("wide.h5") as file:
    assert file["emb/embedding"].chunks == (512, 256)
assert np.array_equal(repalign.open_store("wide.h5").view("embedding").read(0, 3000), wide)
ran = CliRunner().invoke(app, ["store", "info", OLD])
assert ran.exit_code == 1 and "format_version is 1" in ran.output, ran.output
""",
    ),
}


def rows() -> dict[str, set[str]]:
    """Files in the package that every row of the table names, by what is added."""
    section = PAGE.split("## To add something")[1].split("\n## ")[0]
    cells = [line.strip("|").split("|") for line in section.splitlines() if line.startswith("| ")]
    return {
        cell[0].strip(): set(re.findall(r"`([a-z_]+/[\w/]+\.py)`", cell[1])) for cell in cells[1:]
    }


def changed_package(folder: Path, change: Change) -> None:
    without = shutil.ignore_patterns("__pycache__", "weights")
    package = shutil.copytree(ROOT / "repalign", folder / "repalign", ignore=without)
    for name, (before, put) in change.edits.items():
        path = package / name
        assert path.exists() == (before != NEW), name
        text = path.read_text() if before else ""
        assert text.count(before) == 1 or not before, f"{name}: {before}"
        put += "" if before in put else before
        path.write_text(text.replace(before, put) if before else put)


@pytest.mark.slow
@pytest.mark.parametrize("name", CHANGES)
def test_a_change_takes_the_edits_that_are_promised(name: str, tmp_path: Path) -> None:
    change = CHANGES[name]
    assert rows()[name] == change.edits.keys()
    changed_package(tmp_path, change)
    ran = subprocess.run(
        [sys.executable, "-c", START + f"OLD = {str(OLD)!r}\n" + change.then],
        cwd=tmp_path,
        # The copy is not the package whose coverage is counted.
        env=os.environ | {"PYTHONPATH": str(tmp_path), "COVERAGE_PROCESS_START": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr


def test_what_the_page_names_exists() -> None:
    assert len(rows()) >= len(CHANGES)
    for name in re.findall(r"`([\w./-]+/[\w./-]*)`", PAGE):
        if PurePath(name).stem != "new":
            assert (ROOT / name).exists() or (ROOT / "repalign" / name).exists(), name
