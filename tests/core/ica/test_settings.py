import pytest

from repalign.core.ica.contrast import CONTRASTS
from repalign.core.ica.settings import IcaSettings
from repalign.exceptions import InputError
from repalign.options import options_of, recorded_values


def test_passes_follow_the_solver_unless_they_are_asked_for() -> None:
    assert IcaSettings().passes == 400
    assert IcaSettings(solver="sklearn").passes == 200
    assert IcaSettings(solver="sklearn", max_passes=7).passes == 7


def test_what_is_recorded_is_what_was_used() -> None:
    assert recorded_values(IcaSettings(solver="sklearn")) == {
        "ica_solver": "sklearn",
        "ica_contrast": "logcosh",
        "ica_whitening": "pca",
        "ica_passes": 200,
    }


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("contrast", "tanh", "contrast.* 'tanh'.* logcosh, exp, cube"),
        ("solver", "pikard", "solver.* 'pikard'.* picard, sklearn"),
        ("max_passes", 0, "max_passes.* 0"),
    ],
)
def test_what_means_nothing_is_refused(name: str, value: object, message: str) -> None:
    made = IcaSettings()
    # as a caller may, whose types nobody checks; here they are checked before the class can
    object.__setattr__(made, name, value)
    with pytest.raises(InputError, match=message):
        made.__post_init__()


def test_whitening_and_solver_must_suit_each_other() -> None:
    with pytest.raises(InputError, match="--ica-solver sklearn"):
        IcaSettings(whitening="none")


def test_every_contrast_that_may_be_asked_for_is_there() -> None:
    (option,) = (each for each in options_of(IcaSettings) if each.name == "contrast")
    assert tuple(CONTRASTS) == option.type.__args__
