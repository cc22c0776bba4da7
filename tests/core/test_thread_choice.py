import pytest
import torch

from repalign.core.device import is_small, one_thread_if, threads_held


def test_small_is_what_one_core_does_at_once() -> None:
    assert is_small(3000, 20, 30)
    assert not is_small(50_000, 384, 20)


@pytest.mark.parametrize("small", [True, False])
def test_threads_are_held_at_one_only_inside_and_only_if_small(small: bool) -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        with one_thread_if(small):
            assert torch.get_num_threads() == (1 if small else 2)
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


def test_threads_come_back_after_a_failure() -> None:
    before = torch.get_num_threads()
    with pytest.raises(ZeroDivisionError), one_thread_if(True):
        raise ZeroDivisionError
    assert torch.get_num_threads() == before


def test_a_block_within_a_block_ends_nothing() -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        with threads_held(1):
            with threads_held(1):
                assert torch.get_num_threads() == 1
            assert torch.get_num_threads() == 1
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)
