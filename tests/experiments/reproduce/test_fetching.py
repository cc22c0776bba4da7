import hashlib
import tarfile
import urllib.request
from pathlib import Path

import numpy as np
import pytest
from torchvision.datasets import MNIST, utils

from repalign.exceptions import InputError
from repalign.experiments.digit_images import find_digits, load_digits
from repalign.experiments.reproduce import fetching
from repalign.experiments.reproduce.experiment import Experiment
from repalign.experiments.reproduce.fetching import fetch
from repalign.experiments.reproduce.registry import experiments, find_experiment
from tests.experiments.test_digit_images import write_idx


def md5(path: Path) -> str:
    return hashlib.md5(path.read_bytes()).hexdigest()


@pytest.fixture
def published(tmp_path: Path, monkeypatch) -> Path:
    """A folder that torchvision takes files from: its progress bar wants a length of a response."""

    def copied(url: str, filename: str) -> None:
        with urllib.request.urlopen(url) as response:
            Path(filename).write_bytes(response.read())

    monkeypatch.setattr(utils, "_urlretrieve", copied)
    folder = tmp_path / "published"
    folder.mkdir()
    return folder


def test_mnist_is_fetched_by_torchvision_once(
    published: Path, tmp_path: Path, monkeypatch, capsys
) -> None:
    values = {"images-idx3": np.full((6, 8, 8), 7, np.uint8), "labels-idx1": np.arange(6)}
    for part in ("train", "t10k"):
        for name, array in values.items():
            write_idx(published / f"{part}-{name}-ubyte.gz", array.astype(np.uint8))
    files = sorted(published.iterdir())
    monkeypatch.setattr(MNIST, "mirrors", [f"{published.as_uri()}/"])
    monkeypatch.setattr(MNIST, "resources", [(each.name, md5(each)) for each in files])
    own = tmp_path / "own"
    data = find_experiment("warmup").data(own, "MNIST")
    assert data.path.is_relative_to(own)
    assert load_digits(data).labels.tolist() == [*range(6)]
    for each in files:
        each.unlink()
    assert find_experiment("warmup").data(own, "MNIST") == data
    assert capsys.readouterr().out == ""


def test_cifar_10_comes_without_pickles_and_is_checked(
    published: Path, tmp_path: Path, monkeypatch
) -> None:
    rows = np.random.default_rng(0).integers(0, 256, (4, 3073)).astype(np.uint8)
    rows[:, 0] = range(4)
    batch = published / "data_batch_1.bin"
    batch.write_bytes(rows.tobytes())
    archive = published / "cifar-10-binary.tar.gz"
    with tarfile.open(archive, "w:gz") as file:
        file.add(batch, f"cifar-10-batches-bin/{batch.name}")
    monkeypatch.setattr(fetching, "CIFAR_10", (archive.as_uri(), md5(archive)))
    data = find_experiment("data-size").data(tmp_path / "own", "CIFAR10")
    digits = load_digits(data)
    assert digits.images.shape == (4, 32, 32, 3)
    assert digits.labels.tolist() == [0, 1, 2, 3]
    # green of the second pixel of the first row
    assert digits.images[2, 0, 1, 1] == rows[2, 1 + 1024 + 1]
    monkeypatch.setattr(fetching, "CIFAR_10", (archive.as_uri(), "0" * 32))
    with pytest.raises(InputError, match=r"CIFAR10 .*corrupted.*--data"):
        fetch("CIFAR10", tmp_path / "other")


def test_without_a_network_one_line_says_what_to_do(tmp_path: Path, monkeypatch) -> None:
    nowhere = (tmp_path / "nowhere" / "3dshapes.h5").as_uri()
    monkeypatch.setattr(fetching, "SHAPES_3D", (nowhere, "0" * 32))
    with pytest.raises(InputError, match="Shapes3D") as told:
        fetch("Shapes3D", tmp_path)
    assert "\n" not in str(told.value)


def test_only_what_an_experiment_reads_is_fetched_and_only_into_a_folder(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"warmup.* 'CIFAR10'.* MNIST"):
        find_experiment("warmup").data(tmp_path, "CIFAR10")
    with pytest.raises(InputError, match="without --fetch"):
        find_experiment("contrastive").data(tmp_path, "MNIST")
    with pytest.raises(InputError, match="--fetch MNIST"):
        find_experiment("warmup").data(None, "MNIST")
    with pytest.raises(InputError, match=r"'x'.* MNIST"):
        fetch("x", tmp_path)


@pytest.mark.parametrize("experiment", experiments(), ids=lambda each: each.name)
def test_what_can_be_fetched_is_known(experiment: Experiment) -> None:
    assert set(experiment.fetches) <= set(fetching.FETCHERS)
    assert not experiment.fetches or experiment.find_data is not None


def test_files_that_are_not_of_cifar_are_refused(tmp_path: Path) -> None:
    (tmp_path / "data_batch_1.bin").write_bytes(b"abc")
    with pytest.raises(InputError, match=r"3 bytes.* 3073"):
        load_digits(find_digits(tmp_path))
