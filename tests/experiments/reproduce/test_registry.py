import pickle
from pathlib import Path

import pytest

from repalign.exceptions import InputError
from repalign.experiments.reproduce.registry import experiments, find_experiment

PAGE = (Path(__file__).parents[3] / "docs" / "experiments.md").read_text(encoding="utf-8")


@pytest.fixture(params=experiments(), ids=lambda each: each.name)
def experiment(request):
    return request.param


def test_names_are_found_and_others_answered_with_the_nearest() -> None:
    assert find_experiment("gaussian-null").name == "gaussian-null"
    with pytest.raises(InputError, match=r"'gausian-null'.* gaussian-null"):
        find_experiment("gausian-null")
    with pytest.raises(InputError, match=r"'x'.* table1"):
        find_experiment("x")


def test_an_experiment_has_a_small_preset_of_minutes_and_one_of_the_papers_sizes(
    experiment,
) -> None:
    size = experiment.presets["small"]
    assert size.n_seeds >= 3
    assert size.n_seeds * size.seconds_per_seed <= 15 * 60
    assert not size.is_estimate
    assert experiment.presets.keys() == {"small", "paper"}


def test_cases_are_told_apart_and_published_numbers_are_of_cases(experiment) -> None:
    names = set()
    for size in experiment.presets.values():
        of_size = [case.name for case in size.cases]
        assert len(set(of_size)) == len(of_size)
        names |= set(of_size)
    # a selection makes cases of its own, which the test of the experiment knows
    assert experiment.select or {each.case for each in experiment.published} <= names


def test_cases_can_be_sent_to_other_processes(experiment) -> None:
    for size in experiment.presets.values():
        call = experiment.measure, size.cases
        assert pickle.loads(pickle.dumps(call)) == call
        assert len(set(map(repr, size.cases))) == len(size.cases)


def test_the_page_has_a_section_with_a_figure_for_every_experiment(experiment) -> None:
    assert f"\n## {experiment.name}\n" in PAGE
    assert f"experiments/{experiment.name}.png)" in PAGE
