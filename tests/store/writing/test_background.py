"""One thread behind the caller: in order, bounded, and nothing after a failure."""

import threading
from functools import partial

import pytest

from repalign.store.writing.background import BackgroundThread


def test_tasks_are_done_in_order_and_at_most_two_wait() -> None:
    behind, done, gate = BackgroundThread("t"), list[int](), threading.Event()
    behind.put(gate.wait)  # type: ignore[arg-type]
    behind.put(partial(done.append, 1))
    third = threading.Thread(target=behind.put, args=(partial(done.append, 2),))
    third.start()
    third.join(0.2)
    assert third.is_alive(), "the third waits for the first"
    gate.set()
    third.join()
    behind.close()
    assert done == [1, 2]


def test_nothing_is_done_after_a_failure_and_it_is_told() -> None:
    behind, done, gate = BackgroundThread("t"), list[str](), threading.Event()

    def fail() -> None:
        gate.wait()
        raise ValueError("torn")

    behind.put(fail)
    behind.put(partial(done.append, "task"), otherwise=partial(done.append, "otherwise"))
    gate.set()
    with pytest.raises(ValueError, match="torn"):
        behind.wait()
    with pytest.raises(ValueError, match="torn"):
        behind.close()
    assert done == ["otherwise"]
