"""Damaged and foreign results are refused in a line that names the field."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from repalign.comparison.results import COLUMNS
from repalign.comparison.run import compare
from repalign.comparison.settings import CompareSettings
from repalign.exceptions import InputError
from repalign.results.files import read_results


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    """Return a result of one map and one measure, without its digest."""
    rows = np.random.default_rng(0).laplace(size=(40, 3))
    settings = CompareSettings(maps=("rigid", "ica"), measures=("linear-cka",), n_null=0)
    result = compare(rows, rows, names=("a", "b"), settings=settings)
    content = json.loads(result.table("json"))
    del content["sha256"]
    return content


def written(document: dict[str, Any], folder: Path, kind: str, **change: Any) -> Path:
    """Write a result with a change of the last record of a kind."""
    *others, record = document[kind]
    content = {**document, kind: [*others, {**record, **change}]}
    (folder / "x.json").write_text(json.dumps(content))
    return folder / "x.json"


def refusal(path: Path) -> str:
    with pytest.raises(InputError) as refused:
        read_results(path)
    message = str(refused.value)
    assert message.startswith(f"{path}: ")
    assert message.count("\n") == 0
    return message


@pytest.mark.parametrize(
    ("kind", "change", "field"),
    [
        ("records", {"split": "later"}, "].split"),
        ("records", {"n_rows": "many"}, "].n_rows"),
        ("records", {"map": "affine"}, "].map"),
        ("records", {"error": -1.0}, "error"),
        ("records", {"error": 1e200}, "].error"),
        ("records", {"source": "x" * 20_000}, "].source"),
        ("records", {"seed": 10**30}, "].seed"),
        ("records", {"ci_low": None, "ci_high": 0.5}, "ci_low"),
        ("measures", {"better": "↓"}, "better"),
        ("measures", {"measure": "cca9"}, "cca9"),
        ("measures", {"value": "x"}, "value"),
    ],
)
def test_a_changed_value_is_refused_by_its_field(document, tmp_path, kind, change, field) -> None:
    assert field in refusal(written(document, tmp_path, kind, **change))


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"records": 5}, "records"),
        ({"versions": {"numpy": 2}}, "versions.numpy"),
        ({"request": {"command": ["compare", 1]}}, "request.command[1]"),
        ({"settings": None}, "settings"),
        ({"pairs": []}, "details of 0"),
    ],
)
def test_a_changed_part_is_refused_by_its_name(document, tmp_path, change, field) -> None:
    (tmp_path / "x.json").write_text(json.dumps({**document, **change}))
    assert field in refusal(tmp_path / "x.json")


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"diameter": "x"}, "pairs[0].diameter"),
        ({"warnings": [1]}, "pairs[0].warnings[0]"),
        ({"spectra": {"source": [-1.0], "target": [1.0]}}, "spectra"),
        ({"ica": [{"side": "left"}]}, "pairs[0].ica[0]"),
        ({"source": {"name": ["a"]}}, "fingerprint"),
    ],
)
def test_changed_details_are_refused_by_their_name(document, tmp_path, change, field) -> None:
    content = {**document, "pairs": [{**document["pairs"][0], **change}]}
    (tmp_path / "x.json").write_text(json.dumps(content))
    assert field in refusal(tmp_path / "x.json")


@pytest.mark.parametrize("name", ["split", "error", "source_view"])
def test_a_missing_column_is_named(document, tmp_path, name: str) -> None:
    records = [{k: v for k, v in record.items() if k != name} for record in document["records"]]
    (tmp_path / "x.json").write_text(json.dumps({**document, "records": records}))
    assert f"records[0].{name}" in refusal(tmp_path / "x.json")


def test_a_record_that_stands_twice_is_refused(document, tmp_path) -> None:
    records = [*document["records"], document["records"][0]]
    (tmp_path / "x.json").write_text(json.dumps({**document, "records": records}))
    assert "rigid" in refusal(tmp_path / "x.json")


def test_a_name_that_stands_twice_and_numbers_that_are_none_are_refused(tmp_path) -> None:
    for text in ('{"a": 1, "a": 2}', '{"a": NaN}', "[" * 100_000):
        (tmp_path / "x.json").write_text(text)
        refusal(tmp_path / "x.json")


def test_what_was_written_is_read_and_other_columns_stay(document, tmp_path) -> None:
    path = written(document, tmp_path, "records", note="mine")
    records = read_results(path).records
    assert records[-1]["note"] == "mine"
    assert set(records[0]) == set(COLUMNS)
    by_name = {(record["map"], record["split"]): record for record in document["records"]}
    for record in records:
        expected = by_name[record["map"], record["split"]]
        assert {name: record[name] for name in expected} == expected


@pytest.mark.parametrize("value", ["nan", "inf", "1e200", "-1", "x", "1" * 400])
def test_a_damaged_cell_of_a_csv_is_refused_by_its_column(tmp_path, value: str) -> None:
    rows = np.random.default_rng(0).laplace(size=(40, 3))
    text = compare(rows, rows, settings=CompareSettings(maps=("rigid",), n_null=0)).table("csv")
    header, first, *others = text.splitlines()
    cells = dict(zip(header.split(","), first.split(","), strict=True)) | {"error": value}
    (tmp_path / "x.csv").write_text("\n".join([header, ",".join(cells.values()), *others]))
    assert "error" in refusal(tmp_path / "x.csv")
