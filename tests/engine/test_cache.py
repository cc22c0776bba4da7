"""Finished results on the disk: found by content, whole or absent, within a limit."""

import os
import shutil
from pathlib import Path

import numpy as np
import pytest

import repalign
from repalign.comparison.results import CompareResult
from repalign.comparison.run import compare
from repalign.comparison.settings import CompareSettings
from repalign.engine.cache import (
    PACKAGE,
    Cache,
    code_digest,
    default_folder,
    full_key,
    open_cache,
)
from repalign.engine.engine import Engine
from repalign.engine.machine import Machine
from repalign.exceptions import InputError

CHEAP = CompareSettings(maps=("rigid", "linear"), n_null=9, n_halves=0)
RNG = np.random.default_rng(0)
ROWS = [RNG.standard_normal((120, 4)) for _ in range(3)]


@pytest.fixture
def kept(tmp_path: Path) -> Cache:
    return Cache(tmp_path / "kept", 2**30)


def run(kept: Cache, *rows: np.ndarray, **changes) -> tuple[CompareResult, Engine]:
    executor = Engine(kept)
    settings = CompareSettings(**{**vars(CHEAP), **changes})
    return compare(*rows, settings=settings, executor=executor), executor


def test_a_second_run_computes_nothing_and_says_the_same(kept: Cache) -> None:
    first, _ = run(kept, *ROWS)
    again, executor = run(kept, *ROWS)
    assert executor.n_computed == 0
    assert executor.n_cached == 3
    assert again.to_dict() == first.to_dict() == compare(*ROWS, settings=CHEAP).to_dict()
    for one, other in zip(first.maps, again.maps, strict=True):
        np.testing.assert_array_equal(one["rigid"].matrix, other["rigid"].matrix)


def test_a_new_view_costs_only_what_is_new(kept: Cache) -> None:
    run(kept, *ROWS[:2])
    _, executor = run(kept, *ROWS)
    # moments of one more view, its scale as a target, and two more pairs; one pair was found
    assert executor.n_computed == 1 + 1 + 2


def test_other_settings_are_other_work(kept: Cache) -> None:
    first, _ = run(kept, *ROWS[:2])
    other, executor = run(kept, *ROWS[:2], seed=1)
    assert executor.n_computed > 0
    assert other.records != first.records
    _, chosen = run(kept, *ROWS[:2], within=True, max_pairs=5)
    assert chosen.n_computed == 0  # which pairs there are changes nothing of a pair


@pytest.mark.parametrize(
    "damage",
    [lambda b: b[:-7], lambda b: b"", lambda b: b[:90] + b"x" * 40],
    ids=["cut", "empty", "other"],
)
def test_what_is_damaged_is_computed_again(kept: Cache, damage) -> None:
    first, _ = run(kept, *ROWS[:2])
    for path in kept.folder.glob("*.result"):
        path.write_bytes(damage(path.read_bytes()))
    again, executor = run(kept, *ROWS[:2])
    assert executor.n_cached == 0
    assert again.to_dict() == first.to_dict()


def test_the_result_of_another_pair_is_not_taken(kept: Cache) -> None:
    before, _ = run(kept, *ROWS[:2])
    (source,) = kept.folder.glob("pair-*.result")
    run(kept, ROWS[0], ROWS[2])
    (other,) = set(kept.folder.glob("pair-*.result")) - {source}
    shutil.copy(other, source)
    again, executor = run(kept, *ROWS[:2])
    assert executor.n_computed == 1
    assert again.to_dict() == before.to_dict()


@pytest.mark.parametrize("kind", ["pipe", "link"])
def test_a_pipe_or_link_in_the_folder_is_replaced(kept: Cache, kind: str) -> None:
    kept.folder.mkdir()
    path, other = kept.folder / "key.result", kept.folder / "precious"
    other.write_text("stays")
    os.mkfifo(path) if kind == "pipe" else path.symlink_to(other)
    assert kept.get("key") is None
    kept.put("key", 1.5)
    assert kept.get("key") == 1.5
    assert other.read_text() == "stays"


@pytest.mark.skipif(os.geteuid() != 0, reason="gives a file to somebody else")
def test_what_another_user_wrote_is_not_taken(kept: Cache) -> None:
    kept.put("key", 1.5)
    assert kept.get("key") == 1.5
    os.chown(kept.folder / "key.result", 12345, 12345)
    assert kept.get("key") is None


def test_a_folder_into_which_everybody_writes_is_refused(kept: Cache) -> None:
    kept.check_private()  # it is not there yet
    kept.put("key", 1.5)
    kept.check_private()
    kept.folder.chmod(0o1777)
    with pytest.raises(InputError, match=r"everybody .*--no-cache"):
        kept.check_private()


def test_the_longest_unused_go_first(kept: Cache) -> None:
    for number in range(5):
        kept.put(f"a-{number}", np.zeros(1000))
        os.utime(kept.folder / f"a-{number}.result", (number, number))
    kept.get("a-0")
    size = kept.info()["n_bytes"] // 5
    Cache(kept.folder, 2 * size).trim()
    assert {path.stem for path in kept.folder.glob("*.result")} == {"a-0", "a-4"}


def test_it_is_cleared_of_results_alone(kept: Cache) -> None:
    kept.put("a-1", 1.0)
    (kept.folder / "mine.txt").write_text("stays")
    assert kept.clear()["n_results"] == 1
    assert [path.name for path in kept.folder.iterdir()] == ["mine.txt"]
    assert kept.info()["n_results"] == 0


def test_a_folder_that_cannot_be_written_keeps_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    kept = Cache(tmp_path / "file" / "kept", 2**30)
    assert run(kept, *ROWS[:2])[1].n_computed > 0
    assert kept.get("a-1") is None


def test_what_is_too_large_is_not_kept(tmp_path: Path) -> None:
    kept = Cache(tmp_path, 4000)
    kept.put("a-1", np.zeros(1000))
    assert kept.info()["n_results"] == 0


def test_the_name_holds_what_the_bits_hang_on() -> None:
    plain = full_key("pair-1", Machine())
    assert plain == full_key("pair-1", Machine())
    assert plain != full_key("pair-1", Machine(memory_bytes=2**30))
    assert plain.startswith("pair-")


def test_names_follow_the_code_of_the_package_and_no_other(monkeypatch, tmp_path: Path) -> None:
    assert Path(repalign.__file__).parent == PACKAGE
    monkeypatch.setattr("repalign.engine.cache.PACKAGE", tmp_path)
    (tmp_path / "cli").mkdir()
    (tmp_path / "cli" / "app.py").write_text("x = 1")
    (tmp_path / "maths.py").write_text("x = 1")
    digest = code_digest.__wrapped__
    before = digest("cli"), digest()
    (tmp_path / "cli" / "app.py").write_text("x = 2")
    assert (digest("cli") == before[0], digest() == before[1]) == (True, False)
    (tmp_path / "maths.py").write_text("x = 2")
    assert digest("cli") != before[0]


def test_the_folder_follows_the_environment(monkeypatch, tmp_path: Path) -> None:
    monkeypatch.setenv("REPALIGN_CACHE", str(tmp_path))
    monkeypatch.setenv("REPALIGN_CACHE_BYTES", "1MiB")
    assert open_cache() == Cache(tmp_path, 2**20)
    monkeypatch.delenv("REPALIGN_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert default_folder() == tmp_path / "repalign"
    monkeypatch.setenv("REPALIGN_CACHE_BYTES", "much")
    with pytest.raises(InputError, match="expected a size"):
        open_cache()
