"""Signals that wait: heard after the block, ignored ones never, in other threads nothing."""

import signal
import threading
from collections.abc import Iterator

import pytest

from repalign.engine.signals import ENDING, signals_wait


class Heard(Exception):
    """Raised by the handler of a test."""


@pytest.fixture(autouse=True)
def handlers() -> Iterator[None]:
    """Handlers that raise, and afterwards those from before."""

    def hear(number: int, _: object) -> None:
        raise Heard(number)

    before = {number: signal.signal(number, hear) for number in ENDING}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("number", ENDING)
def test_a_signal_is_heard_after_the_block(number: signal.Signals) -> None:
    before = {each: signal.getsignal(each) for each in ENDING}
    steps = []

    def work() -> None:
        with signals_wait():
            signal.raise_signal(number)
            steps.append("done")

    with pytest.raises(Heard):
        work()
    assert steps == ["done"]
    assert {each: signal.getsignal(each) for each in ENDING} == before


def test_what_is_ignored_stays_ignored_and_a_failure_restores_the_handlers() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    before = signal.getsignal(signal.SIGTERM)

    def work() -> None:
        with signals_wait():
            signal.raise_signal(signal.SIGINT)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        work()
    assert signal.getsignal(signal.SIGINT) == signal.SIG_IGN
    assert signal.getsignal(signal.SIGTERM) is before


def test_other_threads_leave_the_handlers_alone() -> None:
    before = signal.getsignal(signal.SIGTERM)
    seen = []

    def work() -> None:
        with signals_wait():
            seen.append(signal.getsignal(signal.SIGTERM))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [before]
