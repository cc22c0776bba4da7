import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import repalign
from repalign.engine.machine import Machine
from repalign.exceptions import InputError
from repalign.experiments.papers.table1 import EXPERIMENT, STORES, PairCase, efficiency, measure
from repalign.experiments.papers.table1_readings import ReadingCase, find_inputs
from repalign.experiments.reproduce.experiment import Case, Measured, Outcome, Preset, Work
from repalign.experiments.reproduce.results import Reproduction
from repalign.experiments.table_one_pairs import PAIRS, paper_rows
from repalign.models.names import PRESETS

RESNET = next(pair for pair in PAIRS if pair.title.startswith("ResNet"))


def test_a_pair_is_measured_in_every_reading_of_ica(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    rows = rng.laplace(size=(200, 3))
    (tmp_path / STORES).mkdir()
    ids = [str(number) for number in range(200)]
    for name, values in ((RESNET.source, rows), (RESNET.target, rows[:, ::-1] * [1, -1, 1])):
        repalign.import_store(repalign.as_source(values, ids=ids), tmp_path / STORES / f"{name}.h5")
    found = measure(PairCase(RESNET.title), 0, Work(tmp_path, Machine()))
    values = {each.measure: each.value for each in found}
    for name in ("permutation", "rigid", "linear"):
        assert values[name] == pytest.approx(0, abs=1e-9)
    for reading in ("ica", "ica+scale", "ica-components"):
        assert values[f"{reading}, held-out"] < 0.05
        assert {efficiency(reading), f"{efficiency(reading)}, held-out"} <= values.keys()


def test_the_sentences_count_the_pairs_in_the_papers_order_and_name_the_nearest() -> None:
    def outcome(case: Case) -> Outcome:
        errors = {"linear": 0.1, "rigid": 0.2, "ica": 0.3, "permutation": 0.4}
        if case.name == RESNET.title:
            errors["permutation"] = 0.25
        if case.name == "GPT-NeoX: final, mean":
            errors = {"linear": 0.131, "rigid": 0.15, "ica": 0.5, "permutation": 0.219}
        measured = [Measured(name, value) for name, value in errors.items()]
        measured += [Measured("ica+scale", 0.222), Measured("ica-components", 0.9)]
        measured += [
            Measured(efficiency(name), 0.5) for name in ("ica", "ica+scale", "ica-components")
        ]
        return Outcome(case, 0, tuple(measured), 0.0)

    outcomes = tuple(map(outcome, EXPERIMENT.presets["small"].cases))
    first, nearest, *rest = Reproduction(EXPERIMENT, "small", (0,), outcomes).sentences()
    assert "10 of 12" in first
    assert re.search(r"160M 0/1: GPT-NeoX: final, mean\b.* ica\+scale\b.* 0\.005\b", nearest)
    assert any("ica: 50 to 50 %" in sentence for sentence in rest)


def test_a_reading_is_extracted_and_measured(tmp_path: Path) -> None:
    (case,) = (
        replace(each, limit=40)
        for each in EXPERIMENT.presets["small"].cases
        if each.name == "GPT-NeoX: final, mean" and isinstance(each, ReadingCase)
    )
    work = Work(tmp_path, Machine())
    assert EXPERIMENT.prepare is not None
    EXPERIMENT.prepare(Preset((case,), 1, 1.0), work)
    stores = sorted(path.name for path in (tmp_path / STORES).glob("*.h5"))
    assert stores == ["gpt-neox-seed0--final-mean.h5", "gpt-neox-seed1--final-mean.h5"]
    values = {each.measure: each.value for each in measure(case, 0, work)}
    assert values["linear"] < values["rigid"] < values["permutation"]


def test_every_reading_of_the_checkpoints_in_the_paper_is_a_case() -> None:
    cases = EXPERIMENT.presets["paper"].cases
    assert {case.paper_row for case in cases if isinstance(case, ReadingCase)} == set(paper_rows())
    models = {
        name
        for case in cases
        if isinstance(case, ReadingCase)
        for name in (case.source, case.target)
    }
    assert models <= PRESETS.keys()
    assert len({case.name for case in cases}) == len(cases) == 13


def test_the_users_text_and_images_are_found_or_missed_by_name(tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_text("A line.\n")
    with pytest.raises(InputError, match=r"0 .*'images'"):
        find_inputs(tmp_path)
    (tmp_path / "images").mkdir()
    (tmp_path / "images" / "a.png").write_bytes(b"a")
    found = find_inputs(tmp_path)
    (case,) = (
        each
        for each in EXPERIMENT.presets["paper"].cases
        if each.name.startswith("MAE: final, cls")
    )
    assert isinstance(case, ReadingCase)
    assert [each.data for each in case.extractions(found)] == [str(tmp_path / "images")] * 2
    (tmp_path / "images" / "a.png").write_bytes(b"b")
    assert find_inputs(tmp_path).digest != found.digest


def test_the_papers_numbers_stand_beside_the_pairs_that_stand_for_them() -> None:
    published = {(each.case, each.measure): each.value for each in EXPERIMENT.published}
    assert published[RESNET.title, "rigid"] == 0.206
    assert published[RESNET.title, efficiency("ica")] == 0.3977
    assert published["MAE: final, cls", "linear"] == 0.036
    assert len(published) == (12 + 13) * 5
