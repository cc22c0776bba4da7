"""Many spaces, many processes: numbers hang on content and settings, and on nothing else."""

import pickle
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from repalign.comparison.results import CompareResult
from repalign.comparison.run import compare
from repalign.comparison.settings import CompareSettings
from repalign.comparison.space import start_seed
from repalign.comparison.views import View
from repalign.engine.engine import Engine, ProcessPool
from repalign.engine.machine import Machine
from repalign.exceptions import InputError
from repalign.store import write_store
from repalign.store.matching import match_rows
from repalign.store.open import as_source, open_embeddings
from repalign.store.source import EmbeddingSource

CHEAP = CompareSettings(n_null=9, n_rotations=9, n_halves=2)


def spaces(count: int = 4, n: int = 240, dim: int = 4) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(5)
    sources = rng.laplace(size=(n, dim)) * np.arange(1, dim + 1)
    return {
        name: sources @ np.linalg.qr(rng.standard_normal((dim, dim)))[0]
        + 0.3 * rng.standard_normal((n, dim))
        for name in "abcdefghij"[:count]
    }


def named(values: dict[str, np.ndarray]) -> list[EmbeddingSource]:
    return [as_source(rows, name=name) for name, rows in values.items()]


def of_pair(result: CompareResult, source: str, target: str) -> list[dict]:
    found = [r for r in result.to_records() if (r["source"], r["target"]) == (source, target)]
    assert found
    return found


def test_a_pair_has_the_same_numbers_alone_and_among_others() -> None:
    settings = CHEAP
    values = spaces()
    among = compare(*named(values), settings=settings)
    alone = compare(*named({name: values[name] for name in "bc"}), settings=settings)
    assert of_pair(among, "b", "c") == of_pair(alone, "b", "c")


def test_spaces_of_other_widths_beside_a_pair_do_not_change_it() -> None:
    values = spaces(2)
    wide = {"w": np.hstack([values["a"], values["b"]])}
    among = compare(*named(wide | values), settings=CHEAP)
    alone = compare(*named(values), settings=CHEAP)
    assert of_pair(among, "a", "b") == of_pair(alone, "a", "b")


def test_the_way_back_is_the_pair_the_other_way_round() -> None:
    settings = CHEAP
    values = spaces(2)
    both = compare(*named(values), settings=replace(settings, both_directions=True))
    back = compare(*reversed(named(values)), settings=settings)
    for one, other in zip(of_pair(both, "b", "a"), of_pair(back, "b", "a"), strict=True):
        assert (one["source_ica_seed"], one["target_ica_seed"]) == (
            other["source_ica_seed"],
            other["target_ica_seed"],
        )
        assert one["error"] == pytest.approx(other["error"], rel=1e-9)
        assert one["p_value"] == other["p_value"]


def test_starts_follow_the_content_and_differ() -> None:
    assert start_seed(0, "a") == start_seed(0, "a")
    seeds = {start_seed(seed, content, n) for seed in (0, 1) for content in "ab" for n in (0, 1)}
    assert len(seeds) == 8
    assert all(0 <= seed < 2**31 for seed in seeds)
    records = compare(*named(spaces(2)), settings=CHEAP).records
    ica = next(record for record in records if record.map == "ica")
    assert ica.source_ica_seed != ica.target_ica_seed


def test_rows_in_another_order_share_no_fit_that_saw_what_is_judged() -> None:
    # a space joined in the order of another has other rows in a part of the same number
    import pandas as pd

    values = spaces(3)
    ids = np.array([f"s{i}" for i in range(240)])
    order = np.random.default_rng(1).permutation(240)
    frames = {name: pd.DataFrame(rows, ids) for name, rows in values.items()}
    frames["c"] = frames["c"].iloc[order]
    among = compare(*named({n: frames[n] for n in "cab"}), settings=CHEAP)  # type: ignore[arg-type]
    alone = compare(*named({n: frames[n] for n in "ab"}), settings=CHEAP)  # type: ignore[arg-type]
    assert of_pair(among, "a", "b") == of_pair(alone, "a", "b")


def files(folder: Path) -> list[Path]:
    values = spaces(3)
    np.save(folder / "a.npy", values["a"])
    np.savetxt(folder / "b.csv", values["b"], delimiter=",", header="w,x,y,z", comments="")
    write_store(folder / "c.h5", {"final": values["c"]})
    return [folder / "a.npy", folder / "b.csv", folder / "c.h5"]


def test_two_workers_give_what_one_process_gives(tmp_path: Path) -> None:
    inputs = [*files(tmp_path), spaces(4)["d"]]
    here = compare(*inputs, settings=CHEAP, executor=Engine())
    stages = []
    machine = Machine(on_stage=lambda *told: stages.append(told))
    with ProcessPool(2) as pool:
        there = compare(*inputs, settings=CHEAP, executor=pool, machine=machine)
        assert stages[-1] == ("pairs", 6, 6)
        with pytest.raises(InputError, match="nan"):
            compare(spaces(1)["a"], np.full((240, 4), np.nan), settings=CHEAP, executor=pool)
    assert here.to_records() == there.to_records()
    assert here.to_dict()["pairs"] == there.to_dict()["pairs"]


@pytest.mark.parametrize("number", [0, 1, 2])
def test_a_file_is_sent_by_name_and_opened_again(tmp_path: Path, number: int) -> None:
    path = files(tmp_path)[number]
    source = open_embeddings(path)
    positions = np.arange(239, -1, -1)
    sent = pickle.dumps(View(source, positions))
    received = pickle.loads(sent)
    assert (received.key, received.n_rows, received.dim) == (View(source, positions).key, 240, 4)
    expected = source.rows.read(0, 240)[::-1]
    np.testing.assert_array_equal(received.rows.read(0, 240), expected)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(received)).rows.read(0, 240), expected)


def test_a_file_that_was_changed_is_refused(tmp_path: Path) -> None:
    path = files(tmp_path)[0]
    sent = pickle.dumps(View(open_embeddings(path), None))
    np.save(path, np.zeros((240, 4)))
    with pytest.raises(InputError, match="comparison began"):
        _ = pickle.loads(sent).rows


def test_an_array_is_sent_by_value() -> None:
    values = spaces(1)["a"]
    received = pickle.loads(pickle.dumps(View(as_source(values, name="mine"), None)))
    np.testing.assert_array_equal(received.rows.read(0, 240), values)
    assert received.source.name == "mine"
    assert received.source.fingerprint == as_source(values).fingerprint


def test_views_of_the_same_stores_are_opened_and_joined_once(tmp_path: Path, monkeypatch) -> None:
    rows = np.random.default_rng(0).standard_normal((2, 3, 60, 2))
    ids = [f"s{number}" for number in range(60)]
    for name, views in zip("ab", rows, strict=True):
        order = np.arange(60) if name == "a" else np.arange(60)[::-1]
        write_store(
            tmp_path / f"{name}.h5",
            {f"block-{number}": view[order] for number, view in enumerate(views)},
            ids=[ids[place] for place in order],
        )
    calls: list[int] = []

    def counted(indexes, *, key):
        calls.append(len(indexes))
        return match_rows(indexes, key=key)

    monkeypatch.setattr("repalign.store.matching.match_rows", counted)
    settings = CompareSettings(maps=("rigid",), layers=("all",), n_null=0, n_halves=0)
    paths = [str(tmp_path / f"{name}.h5") for name in "ab"]
    among = compare(*paths, settings=settings)
    assert len(among.pairs) == 9
    assert calls == [2]
    alone = compare(f"{paths[0]}::block-1", f"{paths[1]}::block-2", settings=settings)
    told = [record for record in among.records if record.source_view == "block-1"]
    assert [record.error for record in alone.records] == [
        record.error for record in told if record.target_view == "block-2"
    ]
