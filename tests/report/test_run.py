import base64
import hashlib
import json
import re
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pandas
import pytest

from repalign.cli import output
from repalign.comparison.run import compare
from repalign.comparison.settings import CompareSettings
from repalign.exceptions import InputError
from repalign.figures.steps import step_of, training_curves
from repalign.report.page import make_report
from repalign.results.files import read_results
from repalign.tables.quantities import quantities_in
from repalign.tables.records import as_json, sealed

VOID = {"meta", "br", "link", "img", "input", "hr"}


class Page(HTMLParser):
    """Collects tags and identifiers; complains where elements are not closed in order."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.ids: list[str] = []
        self.links: list[str] = []

    def handle_starttag(self, tag, attrs) -> None:
        self.tags.append(tag)
        if tag not in VOID:
            self.open.append(tag)
        self.handle_attributes(attrs)

    def handle_startendtag(self, tag, attrs) -> None:
        self.tags.append(tag)
        self.handle_attributes(attrs)

    def handle_attributes(self, attrs) -> None:
        for name, value in attrs:
            if name == "id":
                self.ids.append(value)
            if name in ("src", "href", "xlink:href", "data", "action"):
                self.links.append(value)

    def handle_endtag(self, tag) -> None:
        assert self.open.pop() == tag


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    rng = np.random.default_rng(0)
    hidden = rng.laplace(size=(300, 4)) * [1, 2, 3, 4]
    folder = tmp_path_factory.mktemp("results")
    for name in ("a", "b", "c<d>"):
        turned = hidden @ np.linalg.qr(rng.standard_normal((4, 4)))[0]
        np.save(folder / f"{name}.npy", turned + 0.1 * rng.standard_normal((300, 4)))
    result = compare(
        *(folder / f"{name}.npy" for name in ("a", "b", "c<d>")),
        settings=CompareSettings(n_null=9, n_rotations=1, n_halves=0),
    )
    for form in ("json", "csv"):
        output.emit(result.table(form), folder / f"results.{form}")
    return folder


@pytest.fixture(scope="module")
def text(folder: Path) -> str:
    return make_report(folder / "results.json")


def parse(text: str) -> Page:
    page = Page()
    page.feed(text)
    assert page.open == []
    return page


def test_the_page_is_whole_and_needs_nothing_from_elsewhere(text: str) -> None:
    page = parse(text)
    assert not {"link", "iframe", "img", "object"} & set(page.tags)
    assert page.tags.count("script") == 1
    assert "http:" not in text
    assert "https:" not in text
    assert all(link.startswith(("#", "data:image/png;base64,")) for link in page.links)
    assert all(target.startswith("#") for target in re.findall(r"url\(([^)]*)\)", text))
    assert "@import" not in text


def test_figures_do_not_share_identifiers_and_find_their_own(text: str) -> None:
    page = parse(text)
    assert len(page.ids) == len(set(page.ids))
    wanted = set(re.findall(r"url\(#([^)]*)\)", text))
    wanted |= {link[1:] for link in page.links if link.startswith("#")}
    assert wanted
    assert wanted <= set(page.ids)


def test_light_and_dark_share_figures_without_black_ink(text: str) -> None:
    assert "prefers-color-scheme: dark" in text
    assert "#000000" not in text
    assert "currentColor" in text


def test_json_shows_all_figures_and_the_warnings(folder: Path, text: str) -> None:
    # six for each of three pairs, and four heat maps; the pairs are closed beyond eight
    assert parse(text).tags.count("figure") == 22
    assert "row order" in text
    results = read_results(folder / "results.json")
    assert len(results.pairs) == 3
    error = next(r for r in results.records if (r["map"], r["split"]) == ("rigid", "held-out"))
    assert f"<td>{error['error']:.3f}</td>".replace(">0.", ">.") in text


def test_starts_of_ica_and_their_agreement_are_told(folder: Path, text: str) -> None:
    for record in read_results(folder / "results.json").records:
        if record["map"] != "ica":
            continue
        agreed = f"{record['source_agreement']:.2f} and {record['target_agreement']:.2f}"
        made = f"{record['source_starts']} and {record['target_starts']}"
        assert re.search(rf"{record['split']}, [^<]*ICA: [^<]* {made}, [^<]* {agreed}", text)


def test_names_are_escaped(text: str) -> None:
    assert "c&lt;d&gt;" in text
    assert "c<d>" not in text


def test_csv_gives_the_same_tables_and_says_what_is_missing(folder: Path, text: str) -> None:
    from_csv = make_report(folder / "results.csv")
    page = parse(from_csv)
    assert page.tags.count("figure") == 3 * 2 + 4
    assert "Made from a CSV" in from_csv
    tables = re.findall(r"<tr class=error>.*?</tr>", from_csv)
    assert tables == re.findall(r"<tr class=error>.*?</tr>", text)


def test_csv_and_json_are_read_alike(folder: Path) -> None:
    from_csv, from_json = (read_results(folder / f"results.{end}") for end in ("csv", "json"))
    assert from_csv.records == from_json.records
    assert [pair.title for pair in from_csv.pairs] == [pair.title for pair in from_json.pairs]


def test_progress_is_told_by_pair(folder: Path) -> None:
    seen: list[tuple[int, int]] = []
    make_report(folder / "results.csv", lambda done, total: seen.append((done, total)))
    assert seen == [(1, 3), (2, 3), (3, 3)]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("x.xml", "<a/>", r"'\.xml'"),
        ("x.json", "{", "line 1"),
        ("x.json", "[]", "not the result"),
        ("x.json", '{"format": "other"}', "not the result"),
        ("x.csv", "", "holds no records"),
        ("x.csv", "source,target\na,b\n", "source_view"),
        ("x.csv", "source,target\na\n", "cells"),
    ],
)
def test_other_files_are_refused(tmp_path: Path, name: str, content: str, message: str) -> None:
    (tmp_path / name).write_text(content)
    with pytest.raises(InputError, match=message):
        make_report(tmp_path / name)


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such"):
        make_report(tmp_path / "none.csv")


def test_a_changed_json_is_refused(folder: Path, tmp_path: Path) -> None:
    content = json.loads((folder / "results.json").read_text())
    content["records"][0]["error"] *= 1.5
    path = tmp_path / "x.json"
    path.write_text(json.dumps(content))
    with pytest.raises(InputError, match=r"x\.json: .*changed .*'sha256'"):
        make_report(path)


def test_other_spaces_and_another_order_are_no_change(folder: Path, tmp_path: Path) -> None:
    content = json.loads((folder / "results.json").read_text())
    path = tmp_path / "x.json"
    path.write_text(json.dumps(content, sort_keys=True, indent=7))
    assert read_results(path).notes == ()


def test_a_json_without_a_digest_is_drawn_and_says_so(folder: Path, tmp_path: Path) -> None:
    content = json.loads((folder / "results.json").read_text())
    del content["sha256"]
    path, told = tmp_path / "x.json", list[str]()
    path.write_text(json.dumps(content))
    page = make_report(path, on_note=told.append)
    (note,) = told
    assert "no digest" in note
    assert note in page


def test_a_json_whose_parts_do_not_agree_is_refused(folder: Path, tmp_path: Path) -> None:
    content = json.loads((folder / "results.json").read_text())
    del content["sha256"]
    content["pairs"].pop()
    (tmp_path / "x.json").write_text(json.dumps(content))
    with pytest.raises(InputError, match=r"3 pairs .* 2"):
        make_report(tmp_path / "x.json")


def test_a_browser_may_run_the_script_of_the_page_and_no_other(text: str) -> None:
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', text)
    script = re.search(r"<script>(.*?)</script>", text, re.DOTALL)
    assert policy
    assert script
    digest = base64.b64encode(hashlib.sha256(script[1].encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}'" in policy[1]
    assert "default-src 'none'" in policy[1]


def test_the_page_opens_with_a_map_a_ranking_and_the_warnings_by_pair(folder, text: str) -> None:
    order = [text.index(part) for part in ("id=search", "All pairs", "Ranking", "Before you")]
    assert order == sorted(order)
    assert order[-1] < text.index("<details class=pair")
    links = re.findall(r'<tr data-name="[^"]*"><th scope=row><a href="#(pair-\d)">', text)
    records = read_results(folder / "results.json").records
    errors = [r["error"] for r in records if (r["map"], r["split"]) == ("rigid", "held-out")]
    expected = sorted(range(3), key=lambda place: errors[place])
    assert links == [f"pair-{place}" for place in expected]
    warnings = text[text.index("<details class=warnings>") : text.index("<details class=pair")]
    assert "row order" in warnings
    assert 'href="#pair-0"' in warnings


def test_another_map_is_shown_on_request(folder: Path) -> None:
    page = make_report(folder / "results.json", show="linear")
    assert "<th scope=col>Linear error / rms radius ↓ held-out</th>" in page
    with pytest.raises(InputError, match="'cka'"):
        make_report(folder / "results.json", show="cka")


def test_one_pair_needs_no_overview(folder: Path, tmp_path: Path) -> None:
    lines = (folder / "results.csv").read_text().splitlines()
    alone = tmp_path / "alone.csv"
    alone.write_text("\n".join(line for line in lines if "c<d>" not in line))
    page = make_report(alone)
    assert "Ranking" not in page
    assert parse(page).tags.count("svg") == 2


def test_figures_of_many_pairs_are_left_out_and_that_is_said(folder, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr("repalign.report.page.MOST_DRAWN", 1)
    page = make_report(folder / "results.csv")
    assert re.search("Figures .* 1 pairs; .* 2 ", page)


def with_revisions(folder: Path, path: Path, revisions: dict[str, str]) -> Path:
    """Write a result in which some files stand for stores of these revisions of one model."""
    content = json.loads((folder / "results.json").read_text())
    for pair in content["pairs"]:
        for side in ("source", "target"):
            revision = revisions.get(Path(pair[side]["name"]).stem)
            model = {"id": "org/<pythia>", "revision": revision}
            pair[side]["info"] = {"spec": {"model": model}}
    for record in content["records"]:
        record |= {"source_view": "final", "target_view": "final"}
    path.write_text(json.dumps(sealed(content)))
    return path


def test_alignment_is_drawn_against_the_training_step(folder: Path, tmp_path: Path) -> None:
    steps = {"a": "step10", "b": "step1000", "c<d>": "step10"}
    with pytest.raises(InputError, match="numbered revision"):
        make_report(folder / "results.json", by_revision=True)
    path = with_revisions(folder, tmp_path / "r.json", steps)
    page = make_report(path, by_revision=True)
    assert "By training step" in page
    assert "training step" in page
    assert "org/&lt;pythia&gt;" in page


def test_a_course_is_a_line_by_step(folder: Path, tmp_path: Path) -> None:
    def courses(**revisions: str):
        named = {name.replace("c", "c<d>"): step for name, step in revisions.items()}
        path = with_revisions(folder, tmp_path / "r.json", named)
        results = read_results(path)
        (rigid,) = (each for each in quantities_in(results.records) if each.name == "rigid")
        pairs = [(pair.records, vars(pair.details)) for pair in results.pairs]
        found, left_out = training_curves(pairs, rigid, "held-out")
        return [sorted(course.points) for course in found], left_out

    # the pairs are a-b, a-c, b-c; of the last the source stays at its step
    assert courses(a="main", b="step5", c="step20") == ([[5, 20], [20]], 0)
    assert courses(a="step1", b="step5", c="step20") == ([], 3)
    assert courses(a="step7", b="step7", c="step7") == ([[7], [7], [7]], 0)
    assert courses(a="main") == ([], 3)


def test_saved_folders_of_two_runs_are_two_lines() -> None:
    def pair(name: str, folder: str, value: float):
        record = {"source": "final", "target": name, "source_view": "", "target_view": "h"}
        record |= {"map": "rigid", "split": "held-out", "error": value}
        model = {"id": folder, "revision": None}
        return [record], {"target": {"info": {"spec": {"model": model}}}}

    (rigid,) = quantities_in(pair("a", "b", 0.1)[0])
    runs = [(f"run{n}-{step}.h5", f"checkpoint-{step}") for n in (1, 2) for step in (10, 200)]
    found, left_out = training_curves([pair(*run, 0.1) for run in runs], rigid, "held-out")
    assert [(each.label, list(each.points)) for each in found] == [
        ("final → run1-*.h5::h", [10, 200]),
        ("final → run2-*.h5::h", [10, 200]),
    ]
    assert left_out == 0
    fixed = {"id": "checkpoint-200", "revision": None}
    against = [pair(*run, 0.1) for run in runs]
    for _, details in against:
        details["source"] = {"info": {"spec": {"model": fixed}}}
    found, left_out = training_curves(against, rigid, "held-out")
    assert [list(each.points) for each in found] == [[10, 200], [10, 200]]
    assert left_out == 0
    alike = [pair("a", "checkpoint-5", 0.1), pair("b", "checkpoint-5", 0.2), pair("c", "best", 0.3)]
    found, left_out = training_curves(alike, rigid, "held-out")
    assert [each.label for each in found] == [
        "final → checkpoint-*::h",
        "final → checkpoint-*::h (2)",
    ]
    assert left_out == 1


def test_the_step_is_the_number_of_a_revision() -> None:
    assert [step_of(text) for text in ("step1000", "143000", "epoch-3")] == [1000, 143000, 3]
    assert [step_of(text) for text in ("main", "v1.0", None, "0" * 40)] == [None] * 4


@pytest.mark.parametrize("ending", ["json", "csv"])
def test_measures_are_shown_with_maps_and_without(folder, tmp_path: Path, ending: str) -> None:
    files = [folder / f"{name}.npy" for name in ("a", "b", "c<d>")]
    for maps in (("rigid",), ()):
        settings = CompareSettings(
            maps=maps, measures=("linear-cka", "pooled-r2"), n_null=0, n_halves=0
        )
        result = compare(*files, settings=settings)
        path = tmp_path / f"measures.{ending}"
        path.write_text(result.table(ending))
        read = read_results(path)
        assert len(read.measures) == 9  # CKA, which fits nothing, once
        assert [each["value"] for each in read.measures] == [each.value for each in result.measures]
        page = make_report(path, show="linear-cka")
        parse(page)
        assert "<th scope=col>CKA ↑ all rows</th>" in page
        assert page.count("R² pooled ↑") >= 3
        drawn = "rigid, pooled-r2" if maps else "pooled-r2"
        assert f"<summary>{drawn}</summary>" in page


def test_damaged_measures_are_refused(folder: Path, tmp_path: Path) -> None:
    files = [folder / f"{name}.npy" for name in ("a", "b")]
    settings = CompareSettings(maps=(), measures=("linear-cka",), n_null=0, n_halves=0)
    content = json.loads(as_json(compare(*files, settings=settings).to_dict()))
    path = tmp_path / "damaged.json"
    for change in ({"better": "↓"}, {"split": "x"}, {"measure": "nope"}, {"value": "x"}):
        damaged = content | {"measures": [content["measures"][0] | change]}
        path.write_text(json.dumps(sealed(damaged)))
        with pytest.raises(InputError):
            read_results(path)


def test_a_csv_that_went_through_pandas_is_what_was_written(folder: Path, tmp_path: Path) -> None:
    frame = pandas.read_csv(folder / "results.csv", float_precision="round_trip")
    frame["ratio"] = frame["error"] / frame["null"]
    frame["converged"] = frame["converged"].map({True: "TRUE", False: "FALSE"})
    frame[sorted(frame.columns, reverse=True)].to_csv(tmp_path / "x.csv", index=False)
    read, whole = (read_results(path) for path in (tmp_path / "x.csv", folder / "results.csv"))
    assert [{**record, "ratio": None} for record in read.records] == [
        {**record, "ratio": None} for record in whole.records
    ]


def test_rows_of_a_csv_are_chosen_and_those_of_several_put_together(folder, tmp_path) -> None:
    lines = (folder / "results.csv").read_text().splitlines(keepends=True)
    first, together = tmp_path / "first.csv", tmp_path / "together.csv"
    first.write_text("".join(lines[:11]))
    assert len(read_results(first).records) == 10
    together.write_text("".join([*lines[:11], lines[0], *lines[11:]]))
    assert read_results(together).records == read_results(folder / "results.csv").records


def test_a_frame_from_python_is_read(folder: Path, tmp_path: Path) -> None:
    settings = CompareSettings(maps=("rigid",), n_null=0, n_halves=0)
    result = compare(folder / "a.npy", folder / "b.npy", settings=settings)
    result.to_frame().to_csv(tmp_path / "x.csv", index=False)
    read = read_results(tmp_path / "x.csv")
    assert [each["error"] for each in read.records] == [each.error for each in result.records]
