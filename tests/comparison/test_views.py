"""The order of pairs, and the rows that stay in memory."""

from dataclasses import replace
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest

from repalign.comparison import views
from repalign.comparison.pairs import align_all
from repalign.comparison.run import compare
from repalign.comparison.settings import CompareSettings
from repalign.comparison.views import View
from repalign.engine.machine import Machine
from repalign.exceptions import InputError
from repalign.store import write_store
from repalign.store.open import open_views
from repalign.store.reader import ColumnReader

QUICK = CompareSettings(maps=("rigid",), held_out=0, n_null=0, n_halves=0, layers=("all",))


@pytest.fixture
def store(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    write_store(tmp_path / "a.h5", {f"block-{i}": rng.standard_normal((90, 4)) for i in range(6)})
    return tmp_path / "a.h5"


def pairs_of(store: Path) -> list[tuple[View, View]]:
    sources = list(combinations(open_views(store, ["all"]), 2))
    return [pair.views for pair in align_all(sources, QUICK)]


def reads(pairs: list[tuple[View, View]], order: list[int], kept: int) -> int:
    """How often a memory of so many views has to read one."""
    held: list[str] = []
    count = 0
    for number in order:
        for space in pairs[number]:
            count += space.key not in held
            held = [key for key in held if key != space.key] + [space.key]
        held = held[-kept:]
    return count


def test_pairs_are_walked_in_tiles_where_not_all_rows_have_room(store: Path, monkeypatch) -> None:
    pairs = pairs_of(store)
    assert views.in_tiles(pairs, Machine()) == list(range(15))
    assert views.in_tiles([], Machine()) == []
    view = 90 * 4 * 4
    monkeypatch.setattr(views, "room_for_rows", lambda *_: 4 * view)
    order = views.in_tiles(pairs, Machine())
    assert sorted(order) == list(range(15))
    assert reads(pairs, order, 4) < reads(pairs, list(range(15)), 4)


def test_each_view_is_read_once_while_there_is_room(store: Path) -> None:
    pairs = pairs_of(store)
    room = 100 * 90 * 4 * 4
    first = {space.key: views.loaded_rows(space, room) for pair in pairs for space in pair}
    for pair in pairs:
        for space in pair:
            assert views.loaded_rows(space, room) is first[space.key]
            np.testing.assert_array_equal(first[space.key].read(0, 90), space.rows.read(0, 90))
    views.loaded_rows(pairs[0][0], 0)
    assert len(views._ROWS) == 6  # what is there costs nothing more
    views.free_rows()
    assert views.loaded_rows(pairs[0][0], 0) is pairs[0][0].rows


def test_every_byte_of_a_file_is_read_once(store: Path, monkeypatch) -> None:
    read: list[tuple[str, int]] = []
    read_leaf = ColumnReader.read_leaf

    def noting(self, leaf, out=None):
        read.append((self.where, leaf))
        return read_leaf(self, leaf, out)

    monkeypatch.setattr(ColumnReader, "read_leaf", noting)
    result = compare(store, settings=replace(QUICK, measures=("mutual-knn-3",)))
    assert len(result.pairs) == 15
    assert len(set(read)) >= 6
    assert len(read) == len(set(read))


def test_rows_are_let_go_when_a_comparison_fails(store: Path, monkeypatch) -> None:
    def failing(*_, **__):
        raise InputError("no")

    monkeypatch.setattr("repalign.comparison.run.compute_spaces", failing)
    with pytest.raises(InputError, match="no"):
        compare(store, settings=QUICK)
    assert not views._ROWS


def test_the_numbers_are_the_same_without_room(store: Path, monkeypatch) -> None:
    with_room = compare(store, settings=QUICK).to_records()
    assert not views._ROWS
    monkeypatch.setattr(views, "room_for_rows", lambda *_: 0)
    assert compare(store, settings=QUICK).to_records() == with_room


def test_layers_of_many_have_the_numbers_of_single_comparisons(store: Path) -> None:
    cheap = CompareSettings(n_null=9, n_rotations=1, n_halves=5, starts=1)
    records = compare(store, settings=replace(cheap, layers=("all",))).to_records()
    single = compare(f"{store}::block-1", f"{store}::block-4", settings=cheap).to_records()
    among = [r for r in records if (r["source_view"], r["target_view"]) == ("block-1", "block-4")]
    assert among == single
