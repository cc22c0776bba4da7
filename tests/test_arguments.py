"""Whatever a public function is given, what it cannot use is an error of ours in one line."""

import inspect
import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd
import pytest
import torch

import repalign
from repalign.arguments import check_argument, checked, listed
from repalign.comparison.settings import CompareKeywords
from repalign.conditions.keywords import BatchKeywords, FactorKeywords
from repalign.exceptions import InputError, RepalignError

ROWS = np.random.default_rng(0).laplace(size=(40, 3))
IDS = [f"row {number}" for number in range(40)]
FACTORS = pd.DataFrame({"shape": np.arange(40) % 3, "hue": ROWS[:, 0]})
LABELS = pd.DataFrame({"treated": np.arange(40) % 2, "plate": np.repeat(list("abcd"), 10)})


class Other:
    """Something that nobody expects."""


ODD: list[Any] = [
    None,
    3,
    -1,
    float("nan"),
    10**30,
    1j,
    "",
    "text",
    "\0",
    "x" * 5000,
    b"bytes",
    [],
    {},
    {"a": 1},
    {1, 2},
    range(3),
    [["a"], [1, 2]],
    Path("missing.h5"),
    Path(),
    True,
    int,
    Other(),
    np.zeros(3),
    np.zeros((3, 0)),
    np.array([["a"]]),
    ROWS.astype(complex),
    torch.zeros(2, 3),
    FACTORS,
    pd.Series(["a", "b"]),
]


@dataclass(frozen=True)
class Call:
    """A call that works, of which one argument after the other is replaced."""

    function: Callable[..., Any]
    given: tuple[Any, ...]
    keywords: Mapping[str, Any]
    more: tuple[str, ...] = ()

    @property
    def named(self) -> set[str]:
        """What can be given by name alone."""
        parameters = inspect.signature(self.function).parameters.values()
        own = {each.name for each in parameters if each.kind is each.KEYWORD_ONLY}
        # what is called back may do anything, and what it raises is the user's
        return (own | set(self.keywords) | set(self.more)) - {"on_progress", "on_stage", "executor"}


def calls() -> dict[str, Call]:
    """Return a call of every public function, with files that it needs."""
    repalign.write_store("a.h5", ROWS, ids=IDS)
    np.savez("a.npz", emb=ROWS)
    result = repalign.compare(ROWS, 2 * ROWS, quick=True, maps="rigid")
    (fitted,) = repalign.save_result_maps(result, "maps")
    source = repalign.open_embeddings("a.h5")
    batches = {"labels": ["treated"], "batch": "plate", "conditions": "raw", "folds": 2}
    scores = {"conditions": "raw", "scores": "mcc", "null": 0, "halves": 0}
    fast = {"quick": True, "maps": "rigid"}
    repalign.write_store("shards", ROWS)
    return {
        "apply_map": Call(repalign.apply_map, (fitted, "a.h5", "b.h5"), {"overwrite": True}),
        "as_source": Call(repalign.as_source, (ROWS,), {}),
        "compare": Call(
            repalign.compare, (ROWS, 2 * ROWS), fast, tuple(CompareKeywords.__annotations__)
        ),
        "deconfound": Call(
            repalign.deconfound, (ROWS, LABELS), batches, tuple(BatchKeywords.__annotations__)
        ),
        "disentangle": Call(
            repalign.disentangle, (ROWS, FACTORS), scores, tuple(FactorKeywords.__annotations__)
        ),
        "export_store": Call(repalign.export_store, ("a.h5", "b.npz"), {"overwrite": True}),
        "extract": Call(repalign.extract, (torch.nn.Identity(), [torch.zeros(2, 3)]), {}),
        "import_store": Call(repalign.import_store, ("a.npz", "b.h5"), {"overwrite": True}),
        "join_sources": Call(repalign.join_sources, ([source, source],), {}),
        "open_embeddings": Call(repalign.open_embeddings, ("a.h5",), {}),
        "open_store": Call(repalign.open_store, ("a.h5",), {}),
        "pack_store": Call(repalign.pack_store, ("shards", "b.h5"), {"overwrite": True}),
        "read_map": Call(repalign.read_map, (fitted,), {}),
        "save_result_maps": Call(repalign.save_result_maps, (result, "maps"), {"overwrite": True}),
        "verify_store": Call(repalign.verify_store, ("a.h5",), {}),
        "write_store": Call(repalign.write_store, ("b.h5", ROWS), {"overwrite": True}, ("ids",)),
        "Store": Call(repalign.Store, ("a.h5",), {}),
        "StoreWriter": Call(
            repalign.StoreWriter, ("b.h5",), {"spec": {}, "views": {"x": 3}, "overwrite": True}
        ),
        "Store.view": Call(repalign.open_store("a.h5").view, ("embedding",), {}),
        "view.read": Call(repalign.open_store("a.h5").view("embedding").read, (0, 3), {}),
        "view.take": Call(repalign.open_store("a.h5").view("embedding").take, (np.arange(3),), {}),
        "ProcessPool": Call(repalign.ProcessPool, (1,), {}),
        "settings": Call(repalign.CompareSettings, (), {}, ("maps", "held_out", "seed", "ica")),
        "result.plot": Call(result.plot, ("b.png",), {}),
        "result.table": Call(result.table, ("latex",), {}),
        "result.matrix": Call(result.matrix, ("rigid",), {}),
        "map.apply": Call(repalign.read_map(fitted).apply, (ROWS,), {}),
    }


NAMES = (
    *(name for name in repalign.__all__ if name[0].islower()),
    *("Store", "StoreWriter", "Store.view", "view.read", "view.take", "ProcessPool", "settings"),
    *("result.plot", "result.table", "result.matrix", "map.apply"),
)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", NAMES)
def test_an_argument_of_another_kind_is_an_error_of_ours(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    call = calls()[name]
    tries = [
        ((*call.given[:place], odd, *call.given[place + 1 :]), {})
        for place in range(len(call.given))
        for odd in ODD
    ]
    tries += [(order, {}) for order in itertools.permutations(call.given)]
    tries += [(call.given, {name: odd}) for name in sorted(call.named) for odd in ODD]
    wrong: dict[str, str] = {}
    for given, keywords in tries:
        told = f"{given!r:.80} {keywords!r:.80}"
        try:
            call.function(*given, **{**call.keywords, **keywords})
        except RepalignError as error:
            wrong |= {told: str(error)} if "\n" in str(error) else {}
        except Exception as error:  # noqa: BLE001 (whatever it is, it is none of ours)
            wrong[told] = f"{type(error).__name__}: {error}"
    assert wrong == {}


@pytest.mark.parametrize(
    ("value", "hint", "message"),
    [
        (3, str | Path, "3.* path"),
        (b"a", str | Path, "bytes.* path"),
        ("a\0b", str | Path, r"'a\\x00b'.* NUL"),
        ("x" * 300, str | Path | None, "300 bytes"),
        ("yes", bool, "'yes'.* true or false"),
        (1, bool, "1.* true or false"),
        (True, int, "True.* whole number"),
        pytest.param(10**5000, bool, "many digits.* true or false", id="huge"),
        (1.5, int | None, r"1\.5.* whole number"),
        (int, int, "type.* whole number"),
        (ROWS, Literal["a", "b"], "ndarray.* a, b"),
        ("c", Literal["a", "b"], "'c'.* a, b"),
        (ROWS, Mapping[str, Any] | None, "ndarray.* dictionary"),
        ("f", Callable[[int], int], "'f'.* function"),
        (3, Other, "3.* Other"),
        ({None: 4}, Mapping[str, int], "key None.* text"),
        ({"a": "4"}, Mapping[str, int], r"\['a'\].* '4'.* whole number"),
    ],
)
def test_the_message_says_what_was_got_and_expected(value: Any, hint: Any, message: str) -> None:
    with pytest.raises(InputError, match=rf"^x\b.*{message}"):
        check_argument("x", value, hint)


@pytest.mark.parametrize(
    ("value", "hint"),
    [
        ("a", str | Path),
        (Path("a"), str | Path),
        (None, str | Path | None),
        (np.int64(3), int),
        (np.bool_(True), bool),
        (3, float),
        (np.str_("a"), Literal["a", "b"]),
        ({}, Mapping[str, Any]),
        ({1: 2}, Mapping[str, Any]),
        ({"a": np.int64(3)}, Mapping[str, int]),
        (print, Callable[[int], int]),
        (ROWS, "np.ndarray | None"),
        (ROWS, list[int] | dict[str, int]),
    ],
)
def test_what_fits_and_what_only_the_function_knows_passes(value: Any, hint: Any) -> None:
    check_argument("x", value, hint)


def test_a_call_that_does_not_fit_is_pythons_own_error() -> None:
    @checked
    def function(path: str | Path, *, is_quick: bool = False) -> str:
        return f"{path} {is_quick}"

    assert function("a", is_quick=True) == "a True"
    with pytest.raises(TypeError, match=r"function\(\) missing"):
        function()  # type: ignore[call-arg]
    with pytest.raises(InputError, match=r"is_quick.* 'no'"):
        function("a", is_quick="no")  # type: ignore[arg-type]


def test_a_text_is_no_list_of_texts() -> None:
    assert listed("ids", (text for text in "ab"), "texts", str) == ["a", "b"]
    with pytest.raises(InputError, match=r"ids.* 'ab'.* list"):
        listed("ids", "ab", "texts")
    with pytest.raises(InputError, match=r"ids.* 3"):
        listed("ids", ["a", 3], "texts", str)
