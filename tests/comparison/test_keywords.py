"""Keywords of `compare` are the options of the command line, declared once."""

import re
from collections.abc import Sequence
from typing import Any, get_args, get_origin, get_type_hints

import numpy as np
import pytest

import repalign
from repalign import BatchSettings, CompareSettings, FactorSettings, InputError, RowMismatchError
from repalign.comparison.settings import COMPARE, PRESETS, CompareKeywords, preset, settings_of
from repalign.conditions.keywords import (
    DECONFOUND,
    DISENTANGLE,
    BatchKeywords,
    FactorKeywords,
)
from repalign.conditions.settings import TransformSettings
from repalign.options import plain_type
from repalign.spoken import Names, Spoken


def told_type(hint: Any) -> Any:
    """The type of a keyword, as the field declares it."""
    kind = plain_type(hint)
    if get_origin(kind) is not tuple:
        return hint
    return Names if get_args(kind)[0] is str else Sequence[get_args(kind)[0]]


@pytest.mark.parametrize(
    ("keywords", "spoken", "others"),
    [
        (CompareKeywords, COMPARE, {"ids", "groups"}),
        (FactorKeywords, DISENTANGLE, set()),
        (BatchKeywords, DECONFOUND, set()),
    ],
)
def test_type_checkers_know_the_options_that_are_declared_and_no_others(
    keywords: Any, spoken: Spoken[Any], others: set[str]
) -> None:
    hints = get_type_hints(keywords)
    declared = {name: told_type(each.type) for name, each in spoken.options.items()}
    assert {name: hints[name] for name in hints if name not in others} == (
        dict.fromkeys(spoken.presets, bool) | declared
    )


def test_the_other_studies_take_keywords_as_well() -> None:
    given = {"scores": "mcc,r2", "factor": "shape, size", "null": 3, "ica_solver": "sklearn"}
    settings = DISENTANGLE.settings_of(None, given)
    assert (settings.scores, settings.factors, settings.n_null) == (
        ("mcc", "r2"),
        ("shape, size",),  # repeated on the command line, where a comma is part of a name
        3,
    )
    assert settings.transform.ica.solver == "sklearn"
    batches = DECONFOUND.settings_of(None, {"top": [5, 20], "folds": 3, "conditions": ["raw"]})
    assert (batches.top_percent, batches.n_folds) == ((5, 20), 3)
    assert batches.transform.conditions == ("raw",)
    assert DECONFOUND.settings_of(None, {}) == BatchSettings()


def test_a_study_by_keywords_is_the_study_by_settings() -> None:
    rng = np.random.default_rng(0)
    latents, factors = rng.normal(size=(60, 3)), {"x": rng.normal(size=60)}
    by_keywords = repalign.disentangle(
        latents, factors, scores="mcc", conditions="raw", null=2, halves=0
    )
    settings = FactorSettings(
        scores=("mcc",), transform=TransformSettings(conditions=("raw",)), n_null=2, n_halves=0
    )
    by_settings = repalign.disentangle(latents, factors, settings=settings)
    assert by_keywords.to_dict() == by_settings.to_dict()


@pytest.mark.parametrize(
    ("spoken", "given", "pattern"),
    [
        (DISENTANGLE, {"score": "mcc"}, r"^score: .*\bscores\b"),
        (DISENTANGLE, {"n_null": 3}, r"^n_null: .*\bnull\b"),
        (DISENTANGLE, {"bins": 1}, "^bins: got 1,"),
        (DISENTANGLE, {"group": "x"}, r"^group: .*\bgroups\b"),
        (DECONFOUND, {"top": "5,10"}, "^top: got '5,10'"),
        (DECONFOUND, {"fit_on": "test"}, "^fit_on: got 'test'"),
        (DECONFOUND, {"label": "x"}, r"^label: .*\blabels\b"),
    ],
)
def test_what_is_no_option_of_a_study_is_one_line(
    spoken: Spoken[Any], given: dict[str, Any], pattern: str
) -> None:
    with pytest.raises(InputError) as failure:
        spoken.settings_of(None, given)
    assert re.search(pattern, str(failure.value))


def test_a_keyword_sets_the_field_of_its_option() -> None:
    given = {"split": 0.3, "null": 5, "ica_solver": "sklearn", "both": True, "seed": 4}
    settings = settings_of(None, given)
    assert (settings.held_out, settings.n_null, settings.ica.solver) == (0.3, 5, "sklearn")
    assert settings.both_directions
    assert settings.seed == 4
    assert settings_of(None, {"ids": ["a"], "groups": None}) == CompareSettings()


@pytest.mark.parametrize("maps", ["rigid,linear", "rigid, linear", ["rigid", "linear"]])
def test_names_are_a_list_or_the_text_of_the_command_line(maps: Any) -> None:
    assert settings_of(None, {"maps": maps}).maps == ("rigid", "linear")


def test_no_maps_leave_measures_alone() -> None:
    settings = settings_of(None, {"maps": "none", "measures": "linear-cka"})
    assert (settings.maps, settings.measures) == ((), ("linear-cka",))


@pytest.mark.parametrize("name", list(PRESETS))
def test_a_preset_is_a_keyword_and_others_change_it(name: str) -> None:
    assert settings_of(None, {name: True, "seed": 2}) == preset(name, seed=2)
    assert settings_of(None, {name: False}) == CompareSettings()


def test_a_share_that_is_given_stands_without_the_folds_of_a_preset() -> None:
    settings = settings_of(None, {"audit": True, "split": 0.5})
    assert (settings.held_out, settings.n_folds) == (0.5, 0)


@pytest.mark.parametrize(
    ("given", "pattern"),
    [
        ({"map": "rigid"}, r"^map: .*\bmaps\b"),
        ({"held_out": 0.1}, r"^held_out: .*\bsplit\b"),
        ({"zzz": 1}, r"^zzz: .*\bmaps, measures"),
        ({"quick": True, "audit": True}, "^quick and audit"),
        ({"quick": "yes"}, "^quick: got 'yes'"),
        ({"split": 2}, "^split: got 2,"),
        ({"maps": ["rigit"]}, "^maps: got rigit,"),
        ({"maps": 3}, "^maps: got 3"),
        ({"null": "many"}, "^null: got 'many'"),
        ({"seed": None}, "^seed: got None"),
        ({"on_mismatch": "guess"}, "^on_mismatch: got 'guess'"),
    ],
)
def test_what_is_no_option_is_one_line(given: dict[str, Any], pattern: str) -> None:
    with pytest.raises(InputError) as failure:
        settings_of(None, given)
    assert re.search(pattern, str(failure.value))
    assert "\n" not in str(failure.value)


def test_settings_and_keywords_exclude_each_other() -> None:
    x = np.eye(3)
    with pytest.raises(InputError, match=r"settings: .*quick, seed"):
        repalign.compare(x, x, settings=CompareSettings(), quick=True, seed=1)


def test_a_call_by_keywords_is_the_call_by_settings() -> None:
    x = np.random.default_rng(0).standard_normal((60, 3))
    by_keywords = repalign.compare(x, x + 1, quick=True, maps=["rigid"], seed=1)
    by_settings = repalign.compare(x, x + 1, settings=preset("quick", maps=("rigid",), seed=1))
    assert by_keywords.to_dict() == by_settings.to_dict()


@pytest.mark.parametrize(
    ("spoken", "advice", "in_python"),
    [
        (COMPARE, "go on: --on-mismatch intersect", 'go on: on_mismatch="intersect"'),
        (
            COMPARE,
            "(--widths refuse): use --widths zero-pad or pca",
            '(widths="refuse"): use widths="zero-pad" or pca',
        ),
        (COMPARE, "use --null 199 or more", "use null=199 or more"),
        (COMPARE, "known (--halves)", "known (halves)"),
        (COMPARE, "(--maps mean,rigid), or --layers 'b*'", '(maps="mean,rigid"), or layers="b*"'),
        (
            COMPARE,
            "--quick, --within and --memory",
            "quick=True, within=True and the memory_bytes of machine",
        ),
        (COMPARE, "take them with --layers all", 'take them with layers="all"'),
        (DISENTANGLE, "fewer rows (--max-rows), or", "fewer rows (max_rows), or"),
        (DECONFOUND, "say which (--control)", "say which (control)"),
        (COMPARE, "allow replacing (--overwrite)", "allow replacing (--overwrite)"),
    ],
)
def test_advice_names_keywords_to_who_types_keywords(
    spoken: Spoken[Any], advice: str, in_python: str
) -> None:
    assert spoken.in_python(advice) == in_python


def test_a_refusal_speaks_python_unless_settings_are_given() -> None:
    one, other = (repalign.as_source(np.eye(2), ids=ids) for ids in (["a", "b"], ["a", "c"]))
    with pytest.raises(RowMismatchError, match='on_mismatch="intersect"'):
        repalign.compare(one, other)
    with pytest.raises(RowMismatchError, match="--on-mismatch intersect"):
        repalign.compare(one, other, settings=CompareSettings())
