"""The store commands: data on stdout, talk on stderr, one line and exit code 1 on failure."""

import csv
import io
import json
import os
import re
from pathlib import Path

import numpy as np
import pytest
import typer
from typer.testing import CliRunner, Result

from repalign.cli.app import RepalignGroup, app, root
from repalign.cli.commands import store
from repalign.store.index import RowIndex, encode_ids, pooled_index
from repalign.store.open import open_embeddings
from repalign.store.reader import open_store
from repalign.store.writer import StoreWriter, write_store
from tests.shards import SmallShards

VALUES = np.random.default_rng(0).standard_normal((40, 9)).astype(np.float32)
NAMES = [f"cat-{row}" for row in range(40)]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A store of two views."""
    spec = {"model": {"id": "m", "commit": "c0ffee"}, "layers": [1, 2]}
    write_store(
        tmp_path / "a.h5",
        {"deep": VALUES, "wide": VALUES[:, :3]},
        index=pooled_index(40, ids=NAMES),
        spec=spec,
    )
    return tmp_path / "a.h5"


def run(*words: object) -> Result:
    """Run the command line with the store commands under the real root."""
    app = typer.Typer(cls=RepalignGroup, pretty_exceptions_enable=False)
    app.callback()(root)
    app.add_typer(store.app, name="store")
    return CliRunner().invoke(app, ["store", *(str(word) for word in words)])


def read_csv(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def failure(result: Result) -> str:
    assert result.exit_code == 1
    assert result.stdout == ""
    assert result.stderr.count("\n") == 1
    return result.stderr


def test_info_as_json_is_complete(path: Path) -> None:
    result = run("info", path, "--format", "json")

    found = json.loads(result.stdout)
    assert result.exit_code == 0
    assert (found["n_rows"], found["row_identity"]) == (40, "ids")
    assert [view["name"] for view in found["views"]] == ["deep", "wide"]
    assert found["details"]["spec"]["model"]["commit"] == "c0ffee"
    with open_store(path) as opened:
        assert found["details"]["fingerprint"] == opened.fingerprint


@pytest.mark.parametrize("form", ["csv", "table"])
def test_info_as_lines_names_every_field(path: Path, form: str) -> None:
    text = run("info", path, "--format", form).stdout

    for part in ("views.wide", "3 columns, float32", "spec.model.id", "1, 2", "is_complete"):
        assert part in text


def test_info_says_as_compare_does_that_rows_only_have_an_order(tmp_path: Path) -> None:
    write_store(tmp_path / "a.h5", VALUES)
    index = RowIndex(np.arange(5, 5 + len(VALUES)), np.full(len(VALUES), -1))
    write_store(tmp_path / "b.h5", VALUES, index=index)

    for name, identity in (("a.h5", "row order"), ("b.h5", "sample numbers")):
        found = json.loads(run("info", tmp_path / name, "--format", "json").stdout)
        assert found["row_identity"] == identity == open_embeddings(tmp_path / name).identity


def test_info_of_a_foreign_file_says_where_its_ids_are(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", emb=VALUES, ids=np.array(NAMES))

    found = json.loads(run("info", tmp_path / "a.npz", "--format", "json").stdout)

    assert found["layout"] == "numpy archive"
    assert found["details"]["ids_from"].endswith("a.npz::ids")
    assert found["views"] == [{"name": "emb", "dim": 9, "dtype": "float32"}]


def test_info_of_a_file_of_several_arrays_lists_them(tmp_path: Path) -> None:
    file = tmp_path / "x.npz"
    np.savez(file, a=VALUES, b=VALUES[:, :2], labels=np.arange(40), ids=NAMES)
    found = json.loads(run("info", file, "--format", "json").stdout)
    shapes = {"a": [40, 9], "b": [40, 2], "labels": [40]}
    assert {view["name"]: view["shape"] for view in found["views"]} == shapes
    assert (found["n_rows"], found["details"]["opened_as"]) == (40, f"{file}::a")
    lines = {line["field"]: line["value"] for line in read_csv(run("info", file).stdout)}
    assert (lines["views.b"], lines["views.labels"]) == ("40 × 2", "40")
    one = json.loads(run("info", f"{file}::b", "--format", "json").stdout)
    assert [view["dim"] for view in one["views"]] == [2]
    np.savez(file, a=VALUES, b=VALUES[:9])
    assert "n_rows" not in {line["field"] for line in read_csv(run("info", file).stdout)}


def test_info_of_a_folder_of_modules_lists_them(tmp_path: Path) -> None:
    for module in ("fc1", "fc2"):
        (tmp_path / "things" / module).mkdir(parents=True)
        np.save(tmp_path / "things" / module / "features.npy", VALUES)
    lines = read_csv(run("info", tmp_path / "things").stdout)
    found = {line["field"]: line["value"] for line in lines}
    assert found["views.fc1"] == found["views.fc2"] == "40 × 9"


def test_info_of_an_unfinished_store(tmp_path: Path) -> None:
    options = SmallShards(shard_rows=16)
    writer = StoreWriter(tmp_path / "a.h5", spec={}, views={"deep": 9}, options=options)
    writer.append({"deep": VALUES})
    writer.close()
    parts = tmp_path / "a.h5.parts"

    assert str(parts) in failure(run("info", tmp_path / "a.h5"))
    found = json.loads(run("info", parts, "--format", "json").stdout)
    assert found["n_rows"] == 32
    assert found["details"]["is_complete"] is False


def test_head_shows_identity_and_values(path: Path) -> None:
    result = run("head", f"{path}::deep", "-n", 2, "--format", "csv")

    first, second = read_csv(result.stdout)
    assert (first["id"], first["sample"], first["token"]) == ("cat-0", "0", "")
    np.testing.assert_allclose([float(second[f"e{column}"]) for column in range(9)], VALUES[1])


def test_head_cuts_columns_only_in_a_table_or_when_asked(path: Path) -> None:
    assert "e4" not in run("head", f"{path}::deep", "--format", "table").stdout
    assert "e8" in run("head", f"{path}::deep", "--format", "csv").stdout
    assert "e2" not in run("head", f"{path}::deep", "--columns", 2, "--format", "json").stdout


def test_head_of_an_array_without_identity_is_a_table_too(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.eye(3))
    shown = run("head", tmp_path / "x.npy", "--format", "table")
    assert shown.exit_code == 0, shown.stderr
    assert "sample_sha" not in shown.stdout


def test_head_of_tokens_with_hashes(tmp_path: Path) -> None:
    index = RowIndex(
        np.array([0, 0]),
        np.array([0, 1]),
        sample_sha=np.full((2, 16), 171, dtype=np.uint8),
        ids=encode_ids(["x", "x"]),
    )
    write_store(tmp_path / "a.h5", VALUES[:2], index=index)

    records = json.loads(run("head", tmp_path / "a.h5", "--format", "json").stdout)
    table = run("head", tmp_path / "a.h5", "--format", "table").stdout
    assert records[0]["sample_sha"] == "ab" * 16
    assert " abababab " in table
    assert max(map(len, table.splitlines())) <= 80

    assert [record["token"] for record in records] == [0, 1]
    assert records[0]["sample_sha"] == "ab" * 16


def test_head_asks_which_view(path: Path) -> None:
    assert "deep, wide" in failure(run("head", path))


def test_verify_is_silent_about_sound_stores(path: Path) -> None:
    result = run("verify", path, "--format", "csv")

    (record,) = read_csv(result.stdout)
    assert (result.exit_code, record["sound"], record["mode"]) == (0, "true", "full")
    assert read_csv(run("verify", path, "--quick", "--format", "csv").stdout)[0]["mode"] == "quick"


def test_verify_finds_a_flipped_bit_and_exits_with_1(path: Path, tmp_path: Path) -> None:
    write_store(tmp_path / "b.h5", VALUES)
    content = bytearray(path.read_bytes())
    place = content.find(VALUES[20].tobytes())
    content[place] ^= 1
    path.write_bytes(bytes(content))

    result = run("verify", tmp_path / "b.h5", path, "--format", "csv")

    assert result.exit_code == 1
    assert [record["sound"] for record in read_csv(result.stdout)] == ["true", "false"]
    assert "a.h5" in result.stderr


def test_verify_refuses_what_has_no_checksums(path: Path, tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", VALUES)

    said = failure(run("verify", path, tmp_path / "a.npy"))

    assert re.search(r"a\.npy\b.* checksums", said)


def test_pack_makes_one_file_of_a_folder(tmp_path: Path) -> None:
    write_store(tmp_path / "run", VALUES)

    result = run("pack", tmp_path / "run")

    assert (result.exit_code, result.stdout) == (0, "")
    assert f"{tmp_path}/run.h5" in result.stderr
    assert "exists" in failure(run("pack", tmp_path / "run"))
    assert run("pack", tmp_path / "run", "--overwrite").exit_code == 0
    with open_store(tmp_path / "run.h5") as packed, open_store(tmp_path / "run") as folder:
        assert packed.fingerprint == folder.fingerprint


def test_import_with_ids_beside_the_array(tmp_path: Path) -> None:
    np.save(tmp_path / "emb.npy", VALUES)
    (tmp_path / "names.txt").write_text("\n".join(NAMES))

    result = run(
        "import", tmp_path / "emb.npy", tmp_path / "emb.h5", "--ids", tmp_path / "names.txt",
        "--name", "final", "--licence", "CC0",
    )  # fmt: skip

    assert (result.exit_code, result.stdout) == (0, "")
    assert "names.txt" in result.stderr
    with open_store(tmp_path / "emb.h5") as imported:
        assert imported.info.licence == "CC0"
        assert imported.index.slice(0, 2).ids.tolist() == [b"cat-0", b"cat-1"]


def test_import_without_ids_warns(tmp_path: Path) -> None:
    np.save(tmp_path / "emb.npy", VALUES)

    result = run("import", tmp_path / "emb.npy", tmp_path / "emb.h5")

    assert "warning: " in result.stderr
    assert "--ids" in result.stderr
    assert "exists" in failure(run("import", tmp_path / "emb.npy", tmp_path / "emb.h5"))
    again = run("import", tmp_path / "emb.npy", tmp_path / "emb.h5", "--overwrite")
    assert again.exit_code == 0


def test_info_names_the_columns_of_a_table(tmp_path: Path) -> None:
    names = [f"f{number}" for number in range(40)]
    rows = [",".join([*names, "well"]), ",".join(["0.5"] * 40 + ["B02"])]
    (tmp_path / "a.csv").write_text("\n".join([*rows, ""]))
    found = json.loads(run("info", tmp_path / "a.csv", "-f", "json").stdout)["details"]
    assert (found["columns"], found["left_out"]) == (names, ["well"])
    assert (found["delimiter"], found["decimal"]) == (",", ".")
    table = run("info", tmp_path / "a.csv", "-f", "csv").stdout
    assert "f0, f1, " in table
    assert "f39" in table
    assert "f30" not in table


def test_import_takes_ids_from_a_column(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("key,e0\n7,1.5\n8,2.5\n")

    run("import", tmp_path / "a.csv", tmp_path / "a.h5", "--id-column", "key")

    with open_store(tmp_path / "a.h5") as imported:
        assert imported.index.slice(0, 2).ids.tolist() == [b"7", b"8"]


def test_export_says_where_the_ids_are(path: Path) -> None:
    result = run("export", f"{path}::wide", path.with_suffix(".npy"))

    assert str(path.with_suffix(".ids.txt")) in result.stderr
    np.testing.assert_array_equal(np.load(path.with_suffix(".npy")), VALUES[:, :3])
    assert "exists" in failure(run("export", f"{path}::wide", path.with_suffix(".npy")))


def test_export_format_can_be_named(path: Path) -> None:
    run("export", f"{path}::wide", path.with_name("out.data"), "--as", "csv")

    rows = read_csv(path.with_name("out.data").read_text())
    assert (rows[39]["id"], len(rows)) == ("cat-39", 40)
    np.testing.assert_array_equal(np.float32(rows[3]["e2"]), VALUES[3, 2])


def test_export_warns_of_what_is_lost(tmp_path: Path) -> None:
    index = RowIndex(np.array([0, 0]), np.array([0, 1]), ids=encode_ids(["x", "x"]))
    write_store(tmp_path / "a.h5", VALUES[:2], index=index)

    result = run("export", tmp_path / "a.h5", tmp_path / "a.safetensors")

    assert "token positions" in result.stderr


@pytest.mark.parametrize("command", ["info", "head", "verify"])
def test_missing_files_are_one_line(tmp_path: Path, command: str) -> None:
    result = run(command, tmp_path / "none.h5")

    assert result.exit_code == 1
    assert "none.h5" in result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize(
    "words",
    [
        ("verify", "{pipe}"),
        ("info", "{pipe}"),
        ("head", "{pipe}"),
        ("import", "{npy}", "{out}", "--ids", "{pipe}"),
        ("import", "{npy}", "{out}", "--ids", "{pipe}.csv"),
        ("import", "{pipe}", "{out}"),
        ("import", "{folder}", "{out}"),
        ("verify", "/dev/zero"),
        ("import", "{npy}", "{out}", "--ids", "/dev/zero"),
    ],
)
def test_pipes_and_devices_are_refused_and_not_waited_for(
    tmp_path: Path, words: tuple[str, ...]
) -> None:
    (tmp_path / "folder").mkdir()
    for name in ("pipe", "pipe.csv", "folder/features.npy"):
        os.mkfifo(tmp_path / name)
    np.save(tmp_path / "a.npy", VALUES)
    places = {"pipe": "pipe", "npy": "a.npy", "out": "out.h5", "folder": "folder"}
    paths = {name: str(tmp_path / place) for name, place in places.items()}

    said = failure(run(*(word.format(**paths) for word in words)))

    assert re.search("a (pipe|device)", said)


@pytest.mark.parametrize("word", ["", ".", "/"])
def test_pack_of_a_folder_without_a_name_is_refused(
    tmp_path: Path, word: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    failure(run("pack", word))


@pytest.mark.parametrize("name", ["ids.txt", "ids.csv", "ids.tsv"])
@pytest.mark.parametrize("content", [bytes(range(256)) * 40, b"\0" * 4000, b'a,b\n"', b""])
def test_files_of_ids_that_are_none_are_refused(tmp_path: Path, name: str, content: bytes) -> None:
    np.save(tmp_path / "a.npy", VALUES)
    (tmp_path / name).write_bytes(content)

    failure(run("import", tmp_path / "a.npy", tmp_path / "a.h5", "--ids", tmp_path / name))


def test_what_is_written_is_named_behind_the_input_or_by_an_option(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write_store("shards", np.eye(3))
    for line in (
        "pack shards -o packed.h5",
        "export packed.h5 -o rows.npz",
        "export packed.h5 rows.csv",
        "import rows.npz --output again.h5",
    ):
        assert CliRunner().invoke(app, ["store", *line.split()]).exit_code == 0, line
    assert Path("again.h5").is_file()
    both = CliRunner().invoke(app, ["store", "export", "packed.h5", "a.npz", "-o", "b.npz"])
    assert both.exit_code == 2
    assert re.search("a\\.npz.* b\\.npz", both.stderr)
    neither = CliRunner().invoke(app, ["store", "import", "rows.npz"])
    assert neither.exit_code == 2
    assert "--output" in neither.stderr
    assert CliRunner().invoke(app, ["store", "pack", "shards"]).exit_code == 0
    itself = CliRunner().invoke(app, ["store", "export", "rows.csv", "-o", "rows.csv"])
    assert itself.exit_code == 1
