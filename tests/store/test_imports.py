"""`import_store` takes what `compare` takes."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from repalign import InputError, import_store, open_embeddings


@pytest.mark.parametrize("kind", [str, Path])
def test_a_path_is_enough(kind: Any, tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", emb=np.eye(3), ids=["a", "b", "c"])
    import_store(kind(tmp_path / "x.npz"), kind(tmp_path / "x.h5"))
    assert open_embeddings(tmp_path / "x.h5").identity == "ids"


def test_an_array_is_a_source(tmp_path: Path) -> None:
    assert import_store(np.eye(3), tmp_path / "x.h5").n_rows == 3
    assert open_embeddings(tmp_path / "x.h5").n_rows == 3


@pytest.mark.parametrize("source", [3, None, "missing.npz", object(), {"x": 1}, [["a"]]])
def test_what_is_no_source_is_refused_in_a_line(source: Any, tmp_path: Path) -> None:
    with pytest.raises(InputError) as failure:
        import_store(source, tmp_path / "x.h5")
    assert "\n" not in str(failure.value)
    assert not list(tmp_path.iterdir())


def test_an_output_that_is_no_path_is_refused() -> None:
    with pytest.raises(InputError, match="out: got None"):
        import_store(np.eye(3), None)
