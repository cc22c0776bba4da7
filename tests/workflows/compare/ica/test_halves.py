"""In-sample intervals of ICA by halves of the rows: what is fitted and judged, what it says."""

import numpy as np
import pytest

from repalign import InputError
from repalign.core.inference.splits import quartering, samples_of
from repalign.core.thread_choice import one_thread
from repalign.workflows.compare.run import compare
from repalign.workflows.compare.settings import CompareSettings, preset
from repalign.workflows.executor import InProcess

MAPS = ("permutation", "rigid", "ica")
PLAIN = {"maps": MAPS, "held_out": 0.0, "n_null": 0, "n_gaussian": 0}
FEW = PLAIN | {"n_halves": 4, "starts": 1}


def pair(n_rows: int = 300, seed: int = 0, noise: float = 0.5) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    x = rng.laplace(size=(n_rows, 4))
    turn = np.linalg.qr(np.random.default_rng(0).standard_normal((4, 4)))[0]
    return x, x @ turn + noise * rng.standard_normal(x.shape)


def judged(x: np.ndarray, y: np.ndarray, **options: object) -> dict[str, dict[str, object]]:
    groups = options.pop("groups", None)
    result = compare(x, y, settings=CompareSettings(**PLAIN | options), groups=groups)
    return {row["map"]: row for row in result.to_records() if row["split"] == "in-sample"}


class Keys(InProcess):
    """Notes the names of the starts of ICA that are made."""

    def __init__(self) -> None:
        self.starts: list[str] = []

    def map(self, units, machine):
        self.starts += [unit.key for unit in units if unit.stage == "ICA"]
        return super().map(units, machine)


@pytest.fixture
def seen(monkeypatch):
    """Everything that ``errors_of_halves`` returned."""
    from repalign.workflows.compare import pair as of_pair
    from repalign.workflows.compare.ica import halves

    found = []

    def noting(*given):
        found.append(halves.errors_of_halves(*given))
        return found[-1]

    monkeypatch.setattr(of_pair, "errors_of_halves", noting)
    return found


@pytest.mark.parametrize("ica_rows", ["same", "disjoint"])
def test_a_half_is_fitted_and_judged_as_it_would_be_alone(seen, ica_rows) -> None:
    x, y = pair(4800, noise=0.1)  # where ICA has one answer, whatever the start
    groups = np.repeat(np.arange(1600), 3)
    judged(x, y, n_halves=4, ica_rows=ica_rows, groups=groups)
    (found,) = seen
    assert found.halves.shape == (2, 2, 3)
    assert found.quarters.shape == (2, 2, 2, 3)
    for number in range(2):
        split = quartering(groups, (0, number))
        told = [*found.halves[number], *found.quarters[number].reshape(4, 3)]
        for parts, errors in zip(samples_of(split), told, strict=True):
            rows = np.isin(split.part_of_row, parts)
            alone = judged(x[rows], y[rows], n_halves=0, starts=1, ica_rows=ica_rows)
            expected = [alone[name]["error"] * alone[name]["diameter"] for name in MAPS]
            np.testing.assert_allclose(errors[:2], expected[:2], rtol=1e-12)
            np.testing.assert_allclose(errors[2], expected[2], rtol=1e-3)


def test_the_way_back_has_halves_of_its_own(seen) -> None:
    x, y = pair()
    settings = CompareSettings(**FEW | {"both_directions": True})
    compare(x, y, settings=settings)
    forth, back = seen
    compare(y, x, settings=CompareSettings(**FEW))
    np.testing.assert_allclose(back.halves[..., :2], seen[2].halves[..., :2])
    np.testing.assert_allclose(back.quarters[..., :2], seen[2].quarters[..., :2])
    assert not np.allclose(forth.halves[..., :2], back.halves[..., :2])


@pytest.mark.slow
def test_intervals_reach_as_far_as_samples_vary() -> None:
    with one_thread():
        found = [judged(*pair(seed=seed), seed=seed)["ica"] for seed in range(40)]
        narrow = [judged(*pair(seed=k), seed=k, n_halves=0)["ica"] for k in range(40)]
    values = np.array([each["efficiency"] for each in found])
    assert {(each["n_halves"], each["n_quarters"]) for each in found} == {(20, 40)}
    assert {(each["n_halves"], each["n_quarters"]) for each in narrow} == {(0, 0)}

    def share(rows) -> float:
        low, high = (
            np.array([each[f"efficiency_{end}"] for each in rows]) for end in ("low", "high")
        )
        return float(np.mean((low <= values.mean()) & (values.mean() <= high)))

    # .95 is claimed; 40 samples of it have at least 35 by a chance of .999
    assert share(found) >= 35 / 40
    assert share(narrow) < share(found)
    for wide, other in zip(found, narrow, strict=True):
        assert wide["efficiency"] == other["efficiency"]
        assert wide["efficiency_low"] <= other["efficiency_low"]
        assert wide["efficiency_high"] >= other["efficiency_high"]


def test_halves_are_left_out_where_they_cannot_be_had() -> None:
    x, y = pair(60)
    few = {"n_halves": 4, "starts": 1}
    assert n_samples(judged(x, y, starts=1)) == (20, 40)
    assert n_samples(judged(x, y, n_refits=0)) == (None, None)  # no intervals at all
    assert n_samples(judged(x, y, **few, groups=np.repeat([0, 1], 30))) == (0, 0)
    assert n_samples(judged(x, y, **few, groups=np.repeat(range(5), 12))) == (4, 0)
    giant = np.repeat(range(11), [50] + [1] * 10)  # alone in its half
    assert n_samples(judged(x, y, **few, groups=giant))[1] == 0
    assert n_samples(judged(x[:8], y[:8], **few)) == (0, 0)  # four rows of four columns
    # seven rows, which three would quarter
    assert n_samples(judged(x[:14], y[:14], **few)) == (4, 0)
    assert judged(x, y, ica=preset("quick").ica)["permutation"]["n_halves"] is None
    # only one of the groups varies: one half of every halving has nothing to unmix
    constant = np.repeat(np.arange(3), 20)
    x[20:], y[20:] = 1.0, 2.0
    assert n_samples(judged(x, y, **few, groups=constant)) == (0, 0)


def n_samples(found) -> tuple[int | None, int | None]:
    return found["ica"]["n_halves"], found["ica"]["n_quarters"]


def test_halves_come_in_twos() -> None:
    with pytest.raises(InputError, match="n_halves: got 3, expected an even number"):
        CompareSettings(n_halves=3)


def test_large_pairs_are_halved_only_if_asked_for() -> None:
    from repalign.workflows.compare.spaces import (
        FEWEST_HALVINGS,
        MOST_HALVINGS,
        n_halvings,
    )

    settings = CompareSettings()
    assert n_halvings(2500, 64, settings) == MOST_HALVINGS
    numbers = [n_halvings(n_rows, 64, settings) for n_rows in range(1000, 40_000, 1000)]
    assert numbers == sorted(numbers, reverse=True)
    assert set(numbers) == {*range(FEWEST_HALVINGS, MOST_HALVINGS + 1), 0}
    assert n_halvings(50_000, 384, settings) == 0
    assert n_halvings(50_000, 384, preset("audit")) == MOST_HALVINGS
    assert n_halvings(2500, 64, CompareSettings(maps=("rigid",))) == 0


def test_the_halves_of_a_view_are_unmixed_once_for_all_pairs() -> None:
    x, y = pair()
    executor = Keys()
    settings = CompareSettings(**FEW)
    compare(x, y, x - y, settings=settings, executor=executor)
    assert len(executor.starts) == len(set(executor.starts)) == 3 * (1 + 6 * 2)


def test_the_table_says_where_intervals_lack_halves() -> None:
    x, y = pair()
    told = "without halves of the rows"
    assert told not in compare(x, y, settings=CompareSettings(**FEW)).table()
    without = compare(x, y, settings=CompareSettings(**PLAIN | {"n_halves": 0})).table()
    assert told in " ".join(without.split())
