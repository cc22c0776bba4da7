"""Scores computed by an engine: found again in its cache, the same with any number of workers."""

from pathlib import Path

import numpy as np
import pytest

import repalign
from repalign.engine.cache import Cache
from repalign.engine.engine import Engine
from repalign.engine.machine import Machine
from repalign.engine.opening import choose_engine
from tests.killed import kill_after, results_in, start

RNG = np.random.default_rng(0)
FACTORS = {"shape": RNG.integers(0, 3, 200), "size": RNG.random(200)}
LATENTS = np.column_stack([*FACTORS.values(), RNG.random(200)]) + 0.1 * RNG.random((200, 3))
OPTIONS = {"scores": "infomec,mcc", "conditions": "raw,pca+ica", "null": 9, "halves": 6}


@pytest.fixture
def cache(tmp_path: Path) -> Cache:
    return Cache(tmp_path / "cache", 2**30)


def run(cache: Cache | None = None, latents=LATENTS, factors=FACTORS, **options):
    engine = Engine(cache)
    return repalign.disentangle(latents, factors, executor=engine, **OPTIONS | options), engine


def test_a_second_run_computes_nothing_and_says_the_same(cache: Cache) -> None:
    first, engine = run(cache)
    assert engine.n_computed > 4
    again, rerun = run(cache)
    assert (rerun.n_computed, rerun.n_cached) == (0, engine.n_computed)
    assert again.to_dict() == first.to_dict() == run()[0].to_dict()


@pytest.mark.parametrize(
    "change",
    [
        {"latents": LATENTS + 1e-9},
        {"factors": FACTORS | {"size": 1 - FACTORS["size"]}},
        {"discrete": ["size"], "factors": FACTORS | {"size": FACTORS["size"].round(1)}},
        {"infomec": "training"},
        {"bins": 5},
        {"scores": "infomec"},
        {"seed": 1},
        {"components": 2},
    ],
    ids=lambda change: next(iter(change)),
)
def test_anything_else_is_other_work(cache: Cache, change: dict) -> None:
    run(cache)
    changed, engine = run(cache, **change)
    assert engine.n_computed > 0
    assert changed.to_dict() == run(**change)[0].to_dict()


def test_more_shuffles_leave_scores_and_half_samples_as_they_are(cache: Cache) -> None:
    _, first = run(cache)
    _, engine = run(cache, null=19)
    assert 0 < engine.n_computed < first.n_computed
    assert engine.n_cached > 4


def test_a_stopped_run_continues(cache: Cache) -> None:
    whole, engine = run()
    stage = "shuffles and half-samples"

    def stop(name: str, done: int, total: int) -> None:
        if (name, done) == (stage, 3):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        repalign.disentangle(
            LATENTS, FACTORS, executor=Engine(cache), machine=Machine(on_stage=stop), **OPTIONS
        )
    again, rerun = run(cache)
    assert rerun.n_cached == 2 + 3
    assert rerun.n_computed == engine.n_computed - rerun.n_cached
    assert again.to_dict() == whole.to_dict()


def test_workers_do_not_change_the_result() -> None:
    with choose_engine("local", 2) as engine:
        shared = repalign.disentangle(LATENTS, FACTORS, executor=engine, **OPTIONS)
    assert shared.to_dict() == run()[0].to_dict()


@pytest.mark.slow
def test_a_killed_run_does_nothing_twice(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", LATENTS)
    np.savez(tmp_path / "factors.npz", **FACTORS)
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    words = ["disentangle", "x.npy", "--factors", "factors.npz", "--null", "99"]
    expected, _ = start(words, whole, tmp_path).communicate()
    n_results = len(results_in(whole))
    kill_after(start(words, killed, tmp_path), killed, n_results // 3)
    before = results_in(killed)
    assert 0 < len(before) < n_results
    again, _ = start(words, killed, tmp_path).communicate()
    assert again == expected
    after = results_in(killed)
    assert len(after) == n_results
    assert {name: after[name] for name in before} == before
