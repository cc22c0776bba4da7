from importlib.util import find_spec
from pathlib import Path

import pytest

from repalign.engine.opening import choose_engine
from repalign.exceptions import InputError
from repalign.experiments.reproduce.experiment import Published
from repalign.experiments.reproduce.given_data import GivenData
from repalign.experiments.reproduce.run import reproduce
from tests.experiments.reproduce.toy import experiment


def log(folder: Path) -> list[str]:
    return (folder / "log").read_text().splitlines()


def values(result) -> list[tuple]:
    return [(o.case.name, o.seed, m.measure, m.at, str(m.value))
            for o in result.outcomes for m in o.measured]  # fmt: skip


def test_what_is_done_is_read_and_what_is_new_computed(tmp_path: Path) -> None:
    first = reproduce(experiment(), tmp_path, seeds=[0, 1])
    assert len(log(tmp_path)) == 4
    again = reproduce(experiment(), tmp_path, seeds=[0, 1])
    assert values(again) == values(first)
    assert len(log(tmp_path)) == 4
    reproduce(experiment(), tmp_path)
    assert log(tmp_path)[4:] == ["low 2", "high 2"]


def test_a_run_that_was_stopped_continues_with_the_same_numbers(tmp_path: Path) -> None:
    whole = reproduce(experiment(), tmp_path / "whole")
    folder = tmp_path / "stopped"
    folder.mkdir()
    (folder / "stop").touch()
    with pytest.raises(KeyboardInterrupt):
        reproduce(experiment(), folder)
    (folder / "stop").unlink()
    assert values(reproduce(experiment(), folder)) == values(whole)
    assert log(folder) == ["low 0", "high 0", "low 1", "low 1", "high 1", "low 2", "high 2"]


@pytest.mark.slow
@pytest.mark.skipif(find_spec("ray") is None, reason="Ray is not installed")
def test_seeds_are_spread_by_ray(tmp_path: Path) -> None:
    here = reproduce(experiment(), tmp_path / "here")
    there = reproduce(experiment(), tmp_path / "there", engine=choose_engine("ray", 2))
    assert values(there) == values(here)
    assert len(log(tmp_path / "there")) == len(log(tmp_path / "here"))


def test_the_numbers_do_not_depend_on_the_workers(tmp_path: Path) -> None:
    alone = reproduce(experiment(), tmp_path / "one")
    shared = reproduce(experiment(), tmp_path / "two", engine=choose_engine("local", 2))
    assert values(shared) == values(alone)


def test_results_of_other_code_are_computed_again(tmp_path: Path, monkeypatch) -> None:
    reproduce(experiment(), tmp_path, seeds=[0])
    monkeypatch.setattr("repalign.experiments.reproduce.run.code_digest", lambda *skipped: "")
    reproduce(experiment(), tmp_path, seeds=[0])
    assert len(log(tmp_path)) == 4


@pytest.mark.parametrize("damage", [b"", b"{}", b"repalign result 1\n"])
def test_a_damaged_result_is_computed_again(tmp_path: Path, damage: bytes) -> None:
    first = reproduce(experiment(), tmp_path, seeds=[0])
    damaged = next((tmp_path / "cases").iterdir())
    damaged.write_bytes(damage)
    again = reproduce(experiment(), tmp_path, seeds=[0])
    assert values(again) == values(first)
    assert len(log(tmp_path)) == 3


def test_a_result_of_another_case_is_not_taken(tmp_path: Path) -> None:
    first = reproduce(experiment(), tmp_path, seeds=[0])
    result, other = (tmp_path / "cases").iterdir()
    result.write_bytes(other.read_bytes())
    assert values(reproduce(experiment(), tmp_path, seeds=[0])) == values(first)
    assert len(log(tmp_path)) == 3


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"preset": "paper"}, "'paper'.* small"),
        ({"seeds": []}, r"seeds.* \[\]"),
        ({"seeds": [1, 1]}, r"seeds.* \[1, 1\]"),
        ({"seeds": [-1]}, r"seeds.* \[-1\]"),
    ],
)
def test_what_does_not_exist_is_named(given: dict, message: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=message):
        reproduce(experiment(), tmp_path / "new", **given)
    assert not (tmp_path / "new").exists()


def test_shared_files_are_made_once_and_only_if_something_is_missing(tmp_path: Path) -> None:
    calls = []
    prepared = experiment(prepare=lambda size, work: calls.append(work.folder))
    reproduce(prepared, tmp_path)
    reproduce(prepared, tmp_path)
    assert calls == [tmp_path]


def test_data_are_taken_only_where_an_experiment_says_so(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="without --data"):
        reproduce(experiment(), tmp_path, data=tmp_path)
    with pytest.raises(InputError, match="missing"):
        reproduce(experiment(), tmp_path, data=tmp_path / "missing")


def test_other_data_are_other_work_and_other_published_numbers(tmp_path: Path) -> None:
    given = experiment(
        find_data=lambda path: GivenData("own" if path else "benchmark", path, str(path)),
        published=(Published("high", "value", 5.0, data="benchmark"),),
    )
    first = reproduce(given, tmp_path, seeds=[0])
    assert first.find("high", "value").published == 5.0
    assert any("benchmark" in sentence for sentence in first.sentences())
    assert first.to_dict()["data"] == {"name": "benchmark", "digest": "None"}
    other = reproduce(given, tmp_path, seeds=[0], data=tmp_path)
    assert other.find("high", "value").published is None
    assert len(log(tmp_path)) == 4


def test_data_of_one_name_whose_content_changes_are_other_work(tmp_path: Path) -> None:
    for content in ("first", "second"):
        of_file = experiment(
            find_data=lambda path, content=content: GivenData("own", path, content)
        )
        reproduce(of_file, tmp_path / "out", seeds=[0], data=tmp_path)
    assert len(log(tmp_path / "out")) == 4
