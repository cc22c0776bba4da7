import pytest

from repalign import InputError
from repalign.engine.machine import Machine, parse_memory


@pytest.mark.parametrize(
    ("text", "size"),
    [("2GiB", 2**31), ("500 MB", 500 * 2**20), ("1.5g", 3 * 2**29), ("4096", 4096), ("1e9", 10**9)],
)
def test_sizes_are_read(text: str, size: int) -> None:
    assert parse_memory(text) == size


@pytest.mark.parametrize("text", ["", "lots", "-1GiB", "0", "1.2.3M", "GiB", "1e400", "1e308G"])
def test_what_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="2GiB"):
        parse_memory(text)


def test_progress_is_told_with_its_stage() -> None:
    heard: list[tuple[str, int, int]] = []
    machine = Machine(on_stage=lambda *said: heard.append(said))
    machine.on_progress("ICA")(3, 10)
    assert heard == [("ICA", 3, 10)]
