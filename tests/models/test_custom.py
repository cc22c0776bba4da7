"""One's own module by the function of a file: only when allowed, recorded, and exact."""

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from typer.testing import CliRunner

from repalign.cli.app import app
from repalign.exceptions import InputError, ModelError
from repalign.extraction.run import extract
from repalign.extraction.settings import ExtractSettings
from repalign.files import file_sha256
from repalign.models.describe import describe_model
from repalign.models.load import load_encoder
from repalign.store import open_store

CODE = """
from pathlib import Path

import numpy as np
import torch
from torch import nn

Path(__file__).with_name("ran").touch()


def prepare(image):
    pixels = np.asarray(image.convert("RGB").resize((16, 16)), dtype=np.float32) / 255
    return torch.from_numpy(pixels).permute(2, 0, 1)


def make():
    torch.manual_seed(0)
    blocks = [nn.Sequential(nn.Conv2d(3 if k == 0 else 8, 8, 3, 2, 1), nn.ReLU()) for k in range(3)]
    module = nn.Sequential(nn.Sequential(*blocks), nn.AdaptiveAvgPool2d(1), nn.Flatten())
    return module.train(), prepare


def unfixed():
    return make()[0], lambda image: torch.zeros(3, *image.size)


def alone():
    return make()[0]


def broken():
    return 1 / 0
"""


@pytest.fixture
def code(tmp_path: Path) -> Path:
    path = tmp_path / "code" / "mine.py"
    path.parent.mkdir()
    path.write_text(CODE)
    return path


@pytest.fixture
def images(tmp_path: Path) -> Path:
    folder = tmp_path / "images"
    folder.mkdir()
    rng = np.random.default_rng(0)
    for number, side in enumerate((20, 24, 31)):
        pixels = rng.integers(0, 256, (side, 20, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(folder / f"{number}.png")
    return folder


def test_code_does_not_run_before_it_is_allowed(code: Path, images: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"code .*--trust-code"):
        load_encoder(f"{code}:make")
    words = ["extract", f"{code}:make", "--data", str(images), "-o", str(tmp_path / "a.h5")]
    ran = CliRunner().invoke(app, words)
    assert ran.exit_code == 1
    assert "--trust-code" in ran.stderr
    assert not (code.parent / "ran").exists()


def test_rows_are_those_of_the_module_and_the_code_is_recorded(
    code: Path, images: Path, tmp_path: Path
) -> None:
    words = ["extract", f"{code}:make", "--trust-code", "--data", str(images), "--format", "json"]
    words += ["--layer", "final", "--layer", "1", "-o", str(tmp_path / "a.h5")]
    ran = CliRunner().invoke(app, words)
    assert ran.exit_code == 0, ran.output
    scope: dict = {"__file__": str(code)}
    exec(CODE, scope)
    module, prepare = scope["make"]()
    pixels = torch.stack([prepare(Image.open(path)) for path in sorted(images.iterdir())])
    with torch.no_grad():
        final, first = module.eval()(pixels), module[0][0](pixels).mean((2, 3))
    with open_store(tmp_path / "a.h5") as store:
        assert np.allclose(store.view("final").read(0, 3), final.numpy(), atol=1e-6)
        assert np.allclose(store.view("block-1").read(0, 3), first.numpy(), atol=1e-6)
        model = store.spec["model"]
        assert (model["id"], model["loader"]) == ("mine.py:make", "own code")
        assert model["file_sha256"]["mine.py"] == file_sha256(code)
        assert set(model["file_sha256"]) == {"mine.py", "parameters"}
    assert describe_model(f"{code}:make", trust_code=True).prepared.startswith("images by")


@pytest.mark.parametrize(
    ("function", "message"),
    [
        ("alone", "a Sequential"),
        ("broken", r"mine.py:broken.*zero"),
        ("nothing", "no function nothing"),
    ],
)
def test_what_a_function_does_wrong_is_one_line(code: Path, function: str, message: str) -> None:
    with pytest.raises((InputError, ModelError), match=message):
        load_encoder(f"{code}:{function}", trust_code=True)


def test_images_of_other_sizes_are_refused_where_the_function_keeps_them(
    code: Path, images: Path, tmp_path: Path
) -> None:
    settings = ExtractSettings(f"{code}:unfixed", str(images), tmp_path / "a.h5", trust_code=True)
    with pytest.raises(ModelError, match="one size"):
        extract(settings)
    assert not list(tmp_path.glob("a.h5*"))


def test_a_file_that_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no file at"):
        load_encoder(f"{tmp_path}/none.py:make", trust_code=True)
