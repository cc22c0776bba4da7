"""One progress over all rounds of a comparison."""

import numpy as np

from repalign import compare
from repalign.workflows.compare.settings import CompareSettings
from repalign.workflows.engines.effort import STEPS, Course
from repalign.workflows.machine import Machine

SETTINGS = CompareSettings(
    maps=("permutation", "rigid", "ica"), n_null=9, n_rotations=4, n_halves=2
)


def test_progress_never_goes_back_and_ends_at_the_end() -> None:
    rng = np.random.default_rng(0)
    rows = [rng.laplace(size=(120, 3)) for _ in range(3)]
    for inputs in (rows[:2], rows):
        told: list[tuple[str, int, int]] = []
        machine = Machine(on_stage=lambda *said, told=told: told.append(said))
        compare(*inputs, settings=SETTINGS, machine=machine)
        places = [done for _, done, _ in told]
        assert places == sorted(places)
        assert {total for _, _, total in told} == {STEPS}
        assert any(stage.endswith("errors") for stage, _, _ in told)


def test_a_round_takes_its_share_and_others_only_name_what_is_done() -> None:
    told: list[tuple[str, int, int]] = []
    course = Course(lambda *said: told.append(said), {"moments": 0, "ICA": 1, "pairs": 3})
    for said in (("ICA", 1, 2), ("ICA", 2, 2), ("pairs", 1, 3), ("ICA", 1, 9), ("errors", 5, 5)):
        course(*said)
    assert [done for _, done, _ in told] == [125, 250, 500, 500, 500]
    Course(lambda *said: told.append(said), {})("pairs", 1, 2)
    assert told[-1] == ("pairs", 0, STEPS)
