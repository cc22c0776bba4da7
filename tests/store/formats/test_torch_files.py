"""Tensors in files: plain, in mappings, layered; never anything that runs code."""

import os
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from repalign.exceptions import InputError
from repalign.store.open import open_embeddings


def read_all(path: Path | str, **options: str) -> np.ndarray:
    source = open_embeddings(path, **options)
    return source.rows.read(0, source.n_rows)


@pytest.mark.parametrize("is_new_format", [True, False])
def test_a_tensor_round_trip(tmp_path: Path, values: np.ndarray, is_new_format: bool) -> None:
    tensor = torch.from_numpy(values)
    torch.save(tensor, tmp_path / "a.pt", _use_new_zipfile_serialization=is_new_format)

    np.testing.assert_array_equal(read_all(tmp_path / "a.pt"), values)


@pytest.mark.parametrize("kind", [torch.float16, torch.float64, torch.int16, torch.bool])
def test_every_type_keeps_its_values(tmp_path: Path, kind: torch.dtype) -> None:
    tensor = (torch.arange(12).reshape(4, 3) % 5).to(kind)
    torch.save(tensor, tmp_path / "a.pth")

    np.testing.assert_array_equal(read_all(tmp_path / "a.pth"), tensor.numpy())


def test_bfloat16_is_widened_exactly(tmp_path: Path, values: np.ndarray) -> None:
    tensor = torch.from_numpy(values).bfloat16()
    torch.save(tensor, tmp_path / "a.pt")

    got = read_all(tmp_path / "a.pt")

    assert got.dtype == np.float32
    np.testing.assert_array_equal(got, tensor.float().numpy())


def test_a_mapping_gives_views_and_ids(
    tmp_path: Path, values: np.ndarray, names: list[str]
) -> None:
    tensor = torch.from_numpy(values)
    content = {"deep": {"a": tensor}, "wide": tensor.repeat(1, 2), "ids": names, "epoch": 3}
    torch.save(content, tmp_path / "a.pt")

    source = open_embeddings(tmp_path / "a.pt", view="deep.a")

    np.testing.assert_array_equal(source.rows.read(0, 50), values)
    assert source.index.ids[3] == b"cat-3"
    with pytest.raises(InputError, match=r"2 arrays, deep.a \(50 × 4\), wide \(50 × 8\)"):
        open_embeddings(tmp_path / "a.pt")
    with pytest.raises(InputError, match=r"list 'key'.* deep, wide, ids, epoch"):
        open_embeddings(tmp_path / "a.pt", view="wide", id_column="key")


def test_a_list_of_tensors_is_numbered(tmp_path: Path, values: np.ndarray) -> None:
    torch.save([torch.zeros(50, 2), torch.from_numpy(values)], tmp_path / "a.pt")

    np.testing.assert_array_equal(read_all(f"{tmp_path}/a.pt::1"), values)


def platonic_features(path: Path, values: np.ndarray) -> None:
    """Write what the extraction script of platonic-rep writes for a language model."""
    features = torch.from_numpy(np.stack([values - 1, values, values + 1], axis=1))
    content = {
        "feats": features,
        "num_params": 160_000_000,
        "mask": torch.ones(50, 9, dtype=torch.int64),
        "loss": torch.tensor(3.5),
        "bpb": torch.tensor(1.25),
    }
    torch.save(content, path)


@pytest.mark.parametrize(("view", "shift"), [("layer0", -1), ("layer2", 1), ("layer-2", 0)])
def test_platonic_features_have_a_view_per_layer(
    tmp_path: Path, values: np.ndarray, view: str, shift: int
) -> None:
    platonic_features(tmp_path / "a.pt", values)

    source = open_embeddings(tmp_path / "a.pt", view=view)

    np.testing.assert_array_equal(source.rows.read(0, 50), values + np.float32(shift))
    assert source.info["layout"] == "platonic-rep features"
    assert source.view == {"layer-2": "layer1"}.get(view, view)


def test_platonic_features_ask_for_a_layer(tmp_path: Path, values: np.ndarray) -> None:
    platonic_features(tmp_path / "a.pt", values)

    with pytest.raises(InputError, match=r"3 arrays, layer0 \(50 × 4\), .*a.pt::layer0"):
        open_embeddings(tmp_path / "a.pt")
    with pytest.raises(InputError, match="view 'layer3'"):
        open_embeddings(tmp_path / "a.pt", view="layer3")


class Payload:
    """Runs a command when it is unpickled."""

    def __init__(self, command: str) -> None:
        self.command = command

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.system, (self.command,)


def test_code_in_a_file_is_not_run(tmp_path: Path) -> None:
    mark = tmp_path / "ran"
    torch.save({"feats": torch.zeros(2, 2), "x": Payload(f"touch {mark}")}, tmp_path / "a.pt")

    with pytest.raises(InputError, match=r"plain tensors .*weights_only"):
        open_embeddings(tmp_path / "a.pt")
    assert not mark.exists()


def test_the_payload_would_run_if_it_were_loaded(tmp_path: Path) -> None:
    mark = tmp_path / "ran"
    torch.save(Payload(f"touch {mark}"), tmp_path / "a.pt")

    torch.load(tmp_path / "a.pt", weights_only=False)

    assert mark.exists()


def test_a_tensor_that_claims_more_than_it_holds_is_refused(tmp_path: Path) -> None:
    torch.save(torch.zeros(1).expand(10**9, 1000), tmp_path / "a.pt")

    with pytest.raises(InputError, match=r"\(1000000000, 1000\) .* 4 bytes"):
        open_embeddings(tmp_path / "a.pt")


def test_values_that_are_not_there_are_not_taken_from_another_tensor(tmp_path: Path) -> None:
    torch.save({"a": torch.ones(50, 4), "b": torch.zeros(50, 4)}, tmp_path / "a.pt")
    packed_again(tmp_path / "a.pt", zipfile.ZIP_STORED, **{"data/0": bytes(8)})

    with pytest.raises(InputError, match=r"torch\.save"):
        open_embeddings(tmp_path / "a.pt", view="a")


@pytest.mark.parametrize(
    ("tensor", "message"),
    [
        (torch.eye(3).to_sparse(), "sparse"),
        (torch.zeros(3), r"shape \(3,\)"),
        (torch.zeros(2, 3, 4), r"shape \(2, 3, 4\)"),
        (torch.zeros(2, 3).to(torch.float8_e4m3fn), "float8_e4m3fn"),
        (torch.zeros(2, 3, dtype=torch.complex64), "complex64"),
        (torch.tensor(1.0), "no array"),
    ],
)
def test_tensors_that_are_no_embeddings_are_refused(
    tmp_path: Path, tensor: torch.Tensor, message: str
) -> None:
    torch.save({"x": tensor}, tmp_path / "a.pt")

    with pytest.raises(InputError, match=message):
        open_embeddings(tmp_path / "a.pt")


def packed_again(path: Path, compression: int, **replaced: bytes) -> None:
    with zipfile.ZipFile(path) as archive:
        members = {info.filename: archive.read(info) for info in archive.infolist()}
    with zipfile.ZipFile(path, "w", compression) as archive:
        for name, content in members.items():
            archive.writestr(name, replaced.get(name.partition("/")[2], content))


def test_an_archive_that_was_packed_again_is_read_or_refused(
    tmp_path: Path, values: np.ndarray
) -> None:
    torch.save({"a": torch.ones(3, 2), "b": torch.from_numpy(values)}, tmp_path / "a.pt")
    packed_again(tmp_path / "a.pt", zipfile.ZIP_STORED)
    np.testing.assert_array_equal(read_all(tmp_path / "a.pt", view="b"), values)
    packed_again(tmp_path / "a.pt", zipfile.ZIP_DEFLATED)
    with pytest.raises(InputError, match="compressed"):
        open_embeddings(tmp_path / "a.pt", view="b")


def test_a_file_that_is_cut_while_it_is_open_is_refused(tmp_path: Path, values: np.ndarray) -> None:
    torch.save(torch.from_numpy(np.tile(values, (1000, 1))), tmp_path / "a.pt")
    source = open_embeddings(tmp_path / "a.pt")
    os.truncate(tmp_path / "a.pt", 5000)
    with pytest.raises(InputError, match="changed"):
        source.rows.read(0, source.n_rows)


ORDERS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "turned": lambda x: x.T.contiguous().T,
    "every second column": lambda x: x[:, ::2],
    "inner": lambda x: x[3::2, 1:],
    "turned, every third column": lambda x: x.T.contiguous().T[:, ::3],
    "turned, every second row": lambda x: x.T.contiguous().T[1::2],
    "one row": lambda x: x[:1, ::3],
    "one column": lambda x: x[:, 2:3],
    "layer": lambda x: x.reshape(10, 5, 4).permute(1, 0, 2)[:, 3],
    "overlapping": lambda x: x.as_strided((20, 4), (2, 1)),
}


@pytest.mark.parametrize("name", ORDERS)
@pytest.mark.parametrize("kind", [torch.float32, torch.bfloat16])
def test_any_order_of_values_is_read(
    tmp_path: Path, values: np.ndarray, name: str, kind: torch.dtype
) -> None:
    tensor = ORDERS[name](torch.from_numpy(values).to(kind))
    torch.save({"a": torch.zeros(7, 3), "x": tensor}, tmp_path / "a.pt")

    source = open_embeddings(tmp_path / "a.pt", view="x")

    expected = tensor.float().numpy()
    np.testing.assert_array_equal(source.rows.read(0, source.n_rows), expected)
    some = np.arange(0, source.n_rows, 3)
    np.testing.assert_array_equal(source.rows.take(some), expected[some])


def test_values_of_the_other_byte_order_are_turned(tmp_path: Path) -> None:
    tensor = torch.arange(12, dtype=torch.int32).reshape(4, 3)
    torch.save(tensor, tmp_path / "a.pt")
    other = {"little": b"big", "big": b"little"}[sys.byteorder]
    packed_again(tmp_path / "a.pt", zipfile.ZIP_STORED, byteorder=other)

    np.testing.assert_array_equal(read_all(tmp_path / "a.pt"), tensor.numpy().byteswap())


def test_small_files_that_name_their_content_for_ever_are_read_at_once(tmp_path: Path) -> None:
    numbers: list = [1] * 1000
    for _ in range(3):
        numbers = [numbers] * 1000
    torch.save({"x": torch.ones(3, 2), "numbers": numbers}, tmp_path / "a.pt")
    assert open_embeddings(tmp_path / "a.pt").n_rows == 3
    torch.save({"feats": torch.zeros(1).expand(1, 10**9, 1)}, tmp_path / "b.pt")
    with pytest.raises(InputError, match="layers"):
        open_embeddings(tmp_path / "b.pt")


@pytest.mark.parametrize("keep", [0, 5, 300, 900])
def test_a_cut_file_is_refused(tmp_path: Path, values: np.ndarray, keep: int) -> None:
    torch.save(torch.from_numpy(values), tmp_path / "a.pt")
    (tmp_path / "a.pt").write_bytes((tmp_path / "a.pt").read_bytes()[:keep])

    with pytest.raises(InputError, match="plain tensors"):
        open_embeddings(tmp_path / "a.pt")


def test_rows_that_are_not_finite_are_refused(tmp_path: Path, values: np.ndarray) -> None:
    values[4, 1] = np.nan
    torch.save(torch.from_numpy(values), tmp_path / "a.pt")

    with pytest.raises(InputError, match=r"row 4 .*nan .*column 1"):
        read_all(tmp_path / "a.pt")
