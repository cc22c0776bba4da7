"""safetensors files: every type by position, ids from the metadata, damage refused."""

import json
import struct
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.numpy import save_file
from safetensors.torch import save_file as save_torch_file

from repalign.exceptions import InputError
from repalign.store.open import open_embeddings


def test_round_trip_with_ids(tmp_path: Path, values: np.ndarray, names: list[str]) -> None:
    path = tmp_path / "a.safetensors"
    save_file({"emb": values, "label": np.arange(50)}, path, metadata={"ids": json.dumps(names)})

    source = open_embeddings(path)

    np.testing.assert_array_equal(source.rows.read(5, 50), values[5:])
    assert source.index.ids[49] == b"cat-49"
    assert source.info["layout"] == "safetensors"


@pytest.mark.parametrize(
    "kind",
    [torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.uint8, torch.bool],
)
def test_every_type_keeps_its_values(tmp_path: Path, kind: torch.dtype) -> None:
    tensor = (torch.arange(12).reshape(4, 3) % 5).to(kind)
    save_torch_file({"emb": tensor}, tmp_path / "a.safetensors")

    rows = open_embeddings(tmp_path / "a.safetensors").rows

    np.testing.assert_array_equal(rows.read(0, 4), tensor.float().numpy())


def test_several_tensors_ask_which(tmp_path: Path, values: np.ndarray) -> None:
    path = tmp_path / "a.safetensors"
    save_file({"one": values, "two": values}, path)

    with pytest.raises(InputError, match=r"2 arrays, .*choose"):
        open_embeddings(path)
    assert open_embeddings(f"{path}::two").view == "two"


def test_unknown_types_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.safetensors"
    save_torch_file({"emb": torch.zeros(2, 2).to(torch.float8_e4m3fn)}, path)

    with pytest.raises(InputError, match=r"F8_E4M3.* F32"):
        open_embeddings(path)


@pytest.mark.parametrize(
    ("metadata", "message"),
    [
        ({"ids": "[1"}, "metadata 'ids'.: .*JSON"),
        ({"ids": "[1, 2]"}, "list of texts"),
        ({"ids": '["a"]'}, r"1 ids, .* 50 rows"),
    ],
)
def test_wrong_ids_are_refused(
    tmp_path: Path, values: np.ndarray, metadata: dict[str, str], message: str
) -> None:
    save_file({"emb": values}, tmp_path / "a.safetensors", metadata=metadata)

    with pytest.raises(InputError, match=message):
        open_embeddings(tmp_path / "a.safetensors")
    with pytest.raises(InputError, match="metadata 'key'"):
        open_embeddings(tmp_path / "a.safetensors", id_column="key")


def test_damaged_files_are_refused(tmp_path: Path, values: np.ndarray) -> None:
    path = tmp_path / "a.safetensors"
    save_file({"emb": values}, path)
    whole = path.read_bytes()
    header = b'{"emb":{"dtype":"F32","shape":[1099511627776,4],"data_offsets":[0,800]}}'
    for content in (b"", whole[:20], whole[:-4], struct.pack("<Q", len(header)) + header):
        path.write_bytes(content)

        with pytest.raises(InputError, match="readable safetensors file"):
            open_embeddings(path)
