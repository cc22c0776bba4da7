"""Plans: they follow from sizes, and foretell what is read and how large a store becomes."""

from dataclasses import replace
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from repalign import compare, write_store
from repalign.store.reading.column import ColumnReader
from repalign.workflows.compare.settings import CompareSettings, preset
from repalign.workflows.engines.costs import (
    OPENING_BYTES,
    OPENING_ROW_BYTES,
    announced,
    compare_costs,
    extract_costs,
    in_time,
    times,
)
from repalign.workflows.engines.effort import Stores, sizes_of, space_starts
from repalign.workflows.executor import InProcess
from repalign.workflows.extract.job import prepare_job
from repalign.workflows.extract.run import extract
from repalign.workflows.extract.settings import ExtractSettings
from repalign.workflows.study.choosing import Asked, chosen_pairs

CHEAP = CompareSettings(maps=("rigid", "linear"), n_null=3, n_refits=2)


def amounts(stores: Stores, *, workers: int = 1, memory: int = 2**31, **more) -> dict[str, int]:
    settings = replace(CHEAP, **more)
    costs = compare_costs(stores, settings, workers=workers, memory_bytes=memory)
    return {each.quantity: each.amount for each in costs}


@pytest.mark.parametrize("maps", [("rigid", "linear"), ("rigid", "ica")])
@pytest.mark.parametrize("n_halves", [0, pytest.param(4, marks=pytest.mark.slow)])
def test_what_is_read_is_foretold(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, maps: tuple[str, ...], n_halves: int
) -> None:
    # more starts, which normal rows make ICA ask for, whiten the rows again
    settings = replace(CHEAP, maps=maps, n_halves=n_halves, starts=1)
    rng, paths, read = np.random.default_rng(0), [], []
    for number in range(4):
        paths.append(tmp_path / f"m{number}.h5")
        write_store(paths[-1], {"final": rng.normal(size=(2_000, 16)).astype(np.float32)})
    plain = ColumnReader.read_into

    def counted(self, start, stop, out):
        read.append(out.nbytes if out.shape[1:] == (16,) and out.dtype == np.float32 else 0)
        return plain(self, start, stop, out)

    monkeypatch.setattr(ColumnReader, "read_into", counted)
    sizes = sizes_of(chosen_pairs(Asked(paths), settings))
    assert sizes == Stores(4, 2_000, 16, pairs=6)
    assert sum(read) == 0  # a plan reads no row
    compare(*paths, settings=settings)
    opening = 4 * 2 * (OPENING_BYTES + OPENING_ROW_BYTES * 2_000)  # structure and indices
    told = {"maps": maps, "n_halves": n_halves, "starts": 1}
    planned = amounts(sizes, **told)["bytes read"] - opening
    assert abs(sum(read) - planned) <= 0.2 * planned


def test_what_does_not_fit_is_read_again_and_again() -> None:
    small, large = Stores(10, 1_000, 64), Stores(1_000, 10**8, 4_096)
    assert amounts(small)["tiles"] == 1
    without, with_ica, halved = (
        amounts(small, workers=4, maps=maps, n_halves=n)["bytes read"] / (10 * small.view_bytes)
        for maps, n in ((("rigid",), 0), (("rigid", "ica"), 0), (("rigid", "ica"), 10))
    )
    # each worker once, moments and ICA, and the moments of halves
    assert 4 <= without < 5 < 6 <= with_ica < 7 < 11 <= halved < 12
    huge = amounts(large, workers=100, memory=2**36)
    assert huge["pairs"] == 499_500
    assert huge["bytes of all views"] == 1_000 * 10**8 * 4_096 * 4
    assert huge["bytes read"] > 1_000 * huge["bytes of all views"]
    tiled = amounts(Stores(100, 10**5, 64), memory=2**30, workers=2)
    assert 1 < tiled["tiles"] < 200
    assert tiled["bytes read"] < 40 * tiled["bytes of all views"]
    assert amounts(small, maps=("rigid", "ica"))["memory of a worker"] > 4 * 10**8


def test_the_size_of_a_store_is_foretold(tiny: ModuleType, tmp_path: Path) -> None:
    tiny.save_transformers(tmp_path / "bert", "bert")
    data = tmp_path / "texts.txt"
    data.write_text("\n".join(text for text in tiny.TEXTS for _ in range(300)))
    settings = ExtractSettings(
        str(tmp_path / "bert"), str(data), tmp_path / "a.h5", layers=("all",), device="cpu"
    )
    job = prepare_job(settings)
    job.close()
    found = extract_costs(job, workers=3, process_bytes=10**9)
    planned = {each.quantity: each.amount for each in found}
    extract(settings)
    size = settings.output.stat().st_size
    assert abs(planned["bytes of the store"] - size) <= 0.2 * size
    assert planned["samples"] == planned["rows"] == 3_600
    assert planned["memory of all workers"] == 3 * planned["memory of a worker"]
    many = {each.quantity: each.amount for each in times(found, 5)}
    assert many["rows"] == 5 * planned["rows"]
    assert many["memory of a worker"] == planned["memory of a worker"]
    assert times(found, 1) == found


def test_the_exercise_on_paper_is_what_the_model_says() -> None:
    page = (Path(__file__).parents[3] / "docs" / "cluster.md").read_text()
    lines = [line.strip("| ").split(" | ") for line in page.splitlines() if line.startswith("| ")]
    settings = CompareSettings(maps=("mean", "permutation", "rigid", "linear"))
    sizes = [(1_000, 10**8), (1_000, 10**5), (100, 10**5)]
    told = [
        compare_costs(Stores(*size, dim=4_096), settings, workers=256, memory_bytes=2**36)
        for size in sizes
    ]
    for costs in zip(*told, strict=True):
        if costs[0].quantity != "views":
            assert [costs[0].quantity, *(each.to_dict()["about"] for each in costs)] in lines


def test_the_cost_of_an_audit_is_said_in_one_line() -> None:
    seconds, told = announced(Stores(2, 5_000, 48), preset("audit"), workers=1)
    assert told.startswith(
        "1 pair of up to 5,000 × 48: 72 starts of ICA, 120 on halves and quarters of the rows, "
        "99 shuffles a pair, 9 Gaussian twins a pair of 72 starts each; roughly "
        f"{in_time(seconds)}, less"
    )
    assert 60 < seconds < 600  # 137 s on two busy cores
    many, _ = announced(Stores(20, 5_000, 48), preset("audit"), workers=1)
    shared, _ = announced(Stores(20, 5_000, 48), preset("audit"), workers=4)
    assert many > 150 * seconds
    assert shared == pytest.approx(many / 4, abs=1)
    quick, told = announced(Stores(2, 5_000, 48), preset("quick"), workers=1)
    assert quick < 2
    assert "shuffles" not in told


def test_the_starts_that_are_foretold_are_those_that_are_made() -> None:
    rng, made = np.random.default_rng(0), []

    class Counting(InProcess):
        def map(self, units, machine):
            made.extend(unit for unit in units if unit.stage == "ICA")
            return super().map(units, machine)

    settings = preset("quick", held_out=0.2, starts=3)
    rows = [rng.laplace(size=(200, 4)) for _ in range(3)]
    compare(*rows, settings=settings, executor=Counting())
    assert len(made) == 3 * space_starts(Stores(3, 200, 4), settings) == 18


@pytest.mark.parametrize(
    ("seconds", "told"),
    [(0.2, "0 s"), (119, "119 s"), (170, "3 min"), (9e3, "2 h"), (2e6, "23 days")],
)
def test_times_in_words(seconds: float, told: str) -> None:
    assert in_time(seconds) == told
