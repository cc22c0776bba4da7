"""What every null promises; a new one joins by being in the list."""

from functools import cache
from pathlib import Path

import numpy as np
import pytest

from repalign.comparison.results import COLUMNS as COMPARE
from repalign.comparison.run import compare
from repalign.comparison.settings import CompareSettings
from repalign.core.resampling.kinds import NULLS, PAIR_SHUFFLES, NullKind
from repalign.deconfounding.results import COLUMNS as DECONFOUND
from repalign.deconfounding.run import deconfound
from repalign.deconfounding.settings import BatchSettings
from repalign.disentanglement.results import COLUMNS as DISENTANGLE
from repalign.disentanglement.run import disentangle
from repalign.disentanglement.settings import FactorSettings
from repalign.exceptions import InputError
from repalign.options import options_of
from repalign.results.tidy import TidyResult

DOCS = Path(__file__).parents[2] / "docs"
STUDIES = {
    "compare": (CompareSettings, COMPARE, "results.md"),
    "disentangle": (FactorSettings, DISENTANGLE, "disentangle.md"),
    "deconfound": (BatchSettings, DECONFOUND, "disentangle.md"),
}
each_null = pytest.mark.parametrize("kind", NULLS, ids=lambda kind: kind.name)


@each_null
def test_a_setting_asks_for_it(kind: NullKind) -> None:
    settings, _, _ = STUDIES[kind.study]
    asked = {option.name: option for option in options_of(settings)}[kind.setting]
    assert asked.default == kind.default
    assert asked.declared.help == kind.help


@each_null
def test_its_columns_are_in_the_records_and_in_the_documents(kind: NullKind) -> None:
    settings, columns, page = STUDIES[kind.study]
    assert kind.all_columns
    assert set(kind.all_columns) <= set(columns)
    text = (DOCS / page).read_text(encoding="utf-8")
    assert not [name for name in kind.all_columns if name not in text]
    flag = {option.name: option.flag for option in options_of(settings)}[kind.setting]
    names = ", ".join(f"`{name}`" for name in kind.all_columns)
    row = f"| {kind.name} | `{kind.study} --{flag}` | {kind.told} | {names} |"
    assert row in (DOCS / "maths.md").read_text(encoding="utf-8").splitlines()


@cache
def study(kind: NullKind, *, asked: bool) -> TidyResult:
    """A small study of related rows with no null, or with this one."""
    settings, _, _ = STUDIES[kind.study]
    rng = np.random.default_rng(0)
    x = rng.laplace(size=(480, 3))
    values = {each.setting: False if each.default is False else 0 for each in NULLS
              if each.study == kind.study}  # fmt: skip
    if asked:
        values[kind.setting] = True if kind.default is False else 3
        if kind.default is False:
            values[NULLS[0].setting] = 3
    if kind.study == "compare":
        y = x @ rng.standard_normal((3, 3)) + 0.1 * rng.standard_normal((480, 3))
        chosen = settings(n_halves=0, starts=1, **values)
        return compare(x, y, groups=np.repeat(np.arange(40), 12), settings=chosen)
    if kind.study == "disentangle":
        chosen = settings(scores=("mcc",), n_halves=0, **values)
        return disentangle(x, {"f": x[:, 0] > 0}, settings=chosen)
    labels = (x[:, 0] > 0).astype(int)
    columns = {"label": labels, "batch": np.arange(480) % 3}
    chosen = settings(n_folds=2, rounds=3, judge_batches=False, top_percent=(), **values)
    return deconfound(x, columns, labels=["label"], batch="batch", settings=chosen)


@each_null
def test_it_is_drawn_where_it_is_asked_for_and_only_there(kind: NullKind) -> None:
    name = kind.value or kind.p_value
    assert study(kind, asked=True).to_frame()[name].notna().any()
    assert study(kind, asked=False).to_frame()[name].isna().all()


@pytest.mark.parametrize("kind", PAIR_SHUFFLES, ids=lambda kind: kind.name)
def test_tables_show_the_shuffles_that_were_drawn(kind: NullKind) -> None:
    shown, hidden = (study(kind, asked=asked).table().splitlines() for asked in (True, False))
    is_shown = [
        any(line.startswith(f"  {kind.p_line} ") for line in one) for one in (shown, hidden)
    ]
    assert is_shown == [True, False]


def test_shuffles_inside_groups_need_shuffles() -> None:
    with pytest.raises(InputError, match="beyond_groups: got true"):
        CompareSettings(beyond_groups=True, n_null=0)
