from pathlib import Path

import numpy as np
import pytest

import repalign
from repalign.data.builtin_factors import builtin_columns
from repalign.engine.machine import Machine
from repalign.exceptions import InputError
from repalign.experiments.imagenet_x import FACTORS as OF_PHOTOGRAPHS
from repalign.experiments.papers.proxy_factors import (
    ALL,
    DIGITS,
    EXPERIMENT,
    LARGE,
    OF_DIGITS,
    PIXELS,
    SMALL,
    STORES,
    EncoderCase,
    find_data,
    measure,
    prepare,
)
from repalign.experiments.reproduce.experiment import Measured, Preset, Work
from repalign.experiments.reproduce.results import Reproduction
from repalign.experiments.reproduce.units import Outcome
from tests.experiments.test_imagenet_x import photographs


def test_factors_that_are_there_linearly_are_read_and_others_are_not(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    table = builtin_columns(DIGITS).columns
    planted = np.column_stack([np.asarray(table[name], np.float64) for name in OF_DIGITS[:2]])
    rows = np.column_stack([planted, rng.standard_normal((len(planted), 3))])
    (tmp_path / STORES).mkdir()
    ids = [str(number) for number in range(len(rows))]
    repalign.write_store(
        tmp_path / STORES / "planted.h5", rows @ rng.standard_normal((5, 5)), ids=ids
    )
    found = measure(EncoderCase("planted", "planted"), 0, Work(tmp_path, Machine()))
    values = {each.measure: each.value for each in found}
    assert values["ink"] == pytest.approx(1)
    assert values["width"] == pytest.approx(1)
    # what width and ink tell of it is not much
    assert values["slant"] < 0.3
    assert values[ALL["digits"]] == pytest.approx(np.mean([values[name] for name in OF_DIGITS]))


def test_the_mean_grey_is_a_sum_of_pixels() -> None:
    (case,) = (each for each in SMALL if each.name == PIXELS)
    values = {each.measure: each.value for each in measure(case, 1, Work(Path(), Machine()))}
    assert values["ink"] == pytest.approx(1, abs=1e-4)
    assert 0.8 < values["width"] < 1


@pytest.mark.parametrize(("preset", "cases"), [("small", SMALL), ("paper", LARGE)])
@pytest.mark.parametrize(("untrained", "is_more"), [(0.2, True), (0.9, False)])
def test_the_sentence_follows_the_untrained_network(
    untrained: float, is_more: bool, preset: str, cases: tuple[EncoderCase, ...]
) -> None:
    def outcome(case: EncoderCase, seed: int) -> Outcome:
        value = untrained if case.kind == "untrained" else 0.8
        return Outcome(case, seed, (Measured(ALL[case.images], value + 0.001 * seed),), 0.0)

    outcomes = tuple(outcome(case, seed) for seed in (0, 1) for case in cases)
    (first, *_) = Reproduction(EXPERIMENT, preset, (0, 1), outcomes).sentences()
    assert ("no more" in first) != is_more
    assert f"({untrained:.1f}" in first


@pytest.mark.slow
def test_photographs_are_shown_to_trained_and_untrained_networks_and_as_pixels(
    tmp_path: Path,
) -> None:
    """Bright photographs are told by pixels wholly, at random by nothing, a constant not at all."""
    data = find_data(photographs(tmp_path / "imagenet-x"))
    cases = tuple(
        EncoderCase(name, encoder, kind, "photographs")
        for name, encoder, kind in (
            ("trained", "mae-transformers-seed0", "model"),
            ("untrained", "torchvision:mobilenet_v3_small", "untrained"),
            (PIXELS, "pixels", "pixels"),
        )
    )
    work = Work(tmp_path / "out", Machine(), data)
    prepare(Preset(cases, 1, 1.0), work)
    found = {
        case.name: {each.measure: each.value for each in measure(case, 0, work)} for case in cases
    }
    assert found[PIXELS]["brighter"] == 1
    assert found["trained"]["brighter"] > 0.9
    for values in found.values():
        assert 0.2 < values["pose"] < 0.8
        assert np.isnan(values["texture"])
        told = [values[name] for name in OF_PHOTOGRAPHS]
        assert values[ALL["photographs"]] == pytest.approx(np.nanmean(told))


def test_each_preset_has_its_images(tmp_path: Path) -> None:
    folder = photographs(tmp_path / "imagenet-x")
    with pytest.raises(InputError, match="--preset paper"):
        prepare(EXPERIMENT.presets["small"], Work(tmp_path, Machine(), find_data(folder)))
    with pytest.raises(InputError, match="annotations"):
        prepare(EXPERIMENT.presets["paper"], Work(tmp_path, Machine(), find_data(None)))
