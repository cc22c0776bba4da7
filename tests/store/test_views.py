"""Which views a locator and patterns take, and in which order."""

from pathlib import Path

import numpy as np
import pytest

from repalign.exceptions import InputError, SeveralViewsError
from repalign.store import write_store
from repalign.store.open import layer_order, list_views, open_views

VALUES = np.random.default_rng(0).standard_normal((12, 3)).astype(np.float32)
NAMES = ("block-0", "block-1", "block-10", "block-2", "embeddings", "final", "pre-norm")
IN_ORDER = ("embeddings", "block-0", "block-1", "block-2", "block-10", "pre-norm", "final")


@pytest.fixture
def store(tmp_path: Path) -> Path:
    write_store(tmp_path / "a.h5", {name: VALUES + i for i, name in enumerate(NAMES)})
    return tmp_path / "a.h5"


def taken(locator: object, *layers: str) -> list[tuple[str, int | None]]:
    return [(one.view, one.layer) for one in open_views(str(locator), layers)]


def test_layers_stand_in_the_order_of_the_model() -> None:
    assert layer_order(NAMES) == IN_ORDER
    assert layer_order(["h.11.mean", "h.2.cls", "final.cls"]) == (
        "h.2.cls",
        "h.11.mean",
        "final.cls",
    )


def test_all_or_those_that_match_are_taken_with_their_places(store: Path) -> None:
    assert taken(store, "all") == [(name, place) for place, name in enumerate(IN_ORDER)]
    blocks = [("block-0", 1), ("block-1", 2), ("block-2", 3), ("block-10", 4)]
    assert taken(store, "block-*") == taken(f"{store}::block-*") == blocks
    assert taken(store, "final", "block-1*") == [("block-1", 2), ("block-10", 4), ("final", 6)]


def test_what_a_locator_names_stands_before_patterns(store: Path) -> None:
    assert taken(f"{store}::block-2", "all") == [("block-2", 3)]


def test_the_values_are_those_of_the_view(store: Path) -> None:
    for one in open_views(store, ["all"]):
        np.testing.assert_array_equal(one.rows.read(0, 12), VALUES + NAMES.index(one.view))


def test_a_view_whose_name_is_a_pattern_is_that_view(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", **{"h[0]": VALUES, "h0": VALUES + 1})
    assert taken(f"{tmp_path / 'a.npz'}::h[0]") == [("h[0]", 1)]


def test_views_of_foreign_files(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", layer10=VALUES, layer9=VALUES, ids=np.arange(12))
    assert list_views(tmp_path / "a.npz") == ("layer9", "layer10")
    np.save(tmp_path / "b.npy", VALUES)
    assert taken(tmp_path / "b.npy", "layer*") == [("b", 0)]
    for module in ("encoder", "stem"):
        (tmp_path / "c" / module).mkdir(parents=True)
        np.save(tmp_path / "c" / module / "features.npy", VALUES)
    assert list_views(tmp_path / "c") == ("stem", "encoder")


def test_a_pattern_that_takes_nothing_lists_what_there_is(store: Path) -> None:
    with pytest.raises(InputError, match=r"'layer\*'.* embeddings, block-0"):
        open_views(store, ["block-*", "layer*"])
    with pytest.raises(InputError, match=r"'blok-\?'"):
        open_views(f"{store}::blok-?")
    with pytest.raises(InputError, match="layer-3"):
        open_views(f"{store}::layer-3")


def test_a_bare_store_of_several_views_says_which_there_are(store: Path) -> None:
    with pytest.raises(SeveralViewsError, match="choose one") as refused:
        open_views(store)
    assert set(refused.value.views) == set(NAMES)
