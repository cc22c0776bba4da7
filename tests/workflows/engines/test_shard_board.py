"""Who does what next: few models are loaded, what was lost is given again, failures end a job."""

from pathlib import Path

from repalign.exceptions import ModelError
from repalign.workflows.engines.shard_board import RETRIES, Piece, ShardBoard
from repalign.workflows.extract.portion import Made, ShardPlan
from repalign.workflows.extract.settings import ExtractResult, ExtractSettings, Speed

SPEED = Speed(0, "tokens", 0.0)
PLAN = ShardPlan(sizes=(16, 16, 4), missing=(0, 1, 2), unit="tokens", is_complete=False)


def board(n_jobs: int) -> ShardBoard:
    return ShardBoard([ExtractSettings(f"m{n}", "d", Path(f"{n}.h5")) for n in range(n_jobs)])


def result(path: str) -> ExtractResult:
    return ExtractResult(Path(path), True, 36, "f", {"final": 4}, 36, 36, SPEED, "cpu")


def test_a_worker_keeps_its_model_and_others_begin_new_ones() -> None:
    run = board(2)
    first, second = run.give(None), run.give(None)
    assert (first, second) == (Piece(0, "plan"), Piece(1, "plan"))
    run.planned(first, PLAN)
    assert [run.give(0), run.give(0), run.give(0)] == [Piece(0, "shard", n) for n in range(3)]
    # all of it is given: help with the other model, be ready for it, or wait
    assert run.give(0) == Piece(1, "plan")
    run.planned(Piece(1, "plan"), ShardPlan((16,), (), "tokens", is_complete=True))
    assert run.give(1) == Piece(1, "finish")
    assert run.give(1) is None
    for number in range(3):
        run.made(Piece(0, "shard", number), Made(samples=PLAN.sizes[number], rows=1))
    assert run.give(1) == Piece(0, "finish")
    run.finished(Piece(0, "finish"), result("0.h5"))
    assert not run.is_over
    run.finished(Piece(1, "finish"), result("1.h5"))
    assert run.is_over
    assert (run.jobs[0].made, run.jobs[0].samples_total) == (Made(samples=36, rows=3), 36)
    assert run.jobs[1].samples_total == 0


def test_what_was_lost_is_given_again_but_not_for_ever() -> None:
    run = board(1)
    run.planned(run.give(None), PLAN)
    for _ in range(RETRIES):
        piece = run.give(0)
        assert piece == Piece(0, "shard", 0)
        assert run.lost(piece)
    assert not run.lost(run.give(0))
    fresh = board(1)
    assert fresh.lost(fresh.give(None))
    assert fresh.give(None) == Piece(0, "plan")


def test_a_model_that_cannot_be_used_leaves_the_others() -> None:
    run = board(2)
    run.failed(run.give(None), (ModelError, "no such model"))
    assert run.jobs[0].is_over
    assert run.give(0) == Piece(1, "plan")
    # the first reason is told, and what others bring later changes nothing
    run.failed(Piece(0, "plan"), (ModelError, "later"))
    assert run.jobs[0].failure == (ModelError, "no such model")
