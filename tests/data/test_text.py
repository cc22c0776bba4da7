"""Text in every form: stable ids, hashes of the raw input, refusals in one line."""

import hashlib
import json
import random
from contextlib import suppress
from pathlib import Path

import pandas
import pytest

from repalign.data.open_data import open_data
from repalign.data.read_options import ReadOptions
from repalign.data.samples import Source
from repalign.exceptions import InputError, MissingExtraError, RepalignError
from repalign.extraction.batches import select_samples
from repalign.extraction.settings import ExtractSettings


def contents(source: Source) -> list[tuple[str, str]]:
    return [(s.id, str(s.value)) for s in map(source.read, range(len(source)))]


def sha(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()


@pytest.fixture
def poem(tmp_path: Path) -> Path:
    path = tmp_path / "poem.txt"
    path.write_bytes("one\r\n\ntwo\nthrée\n  \n\nfour".encode())
    return path


@pytest.mark.parametrize(
    ("unit", "expected"),
    [
        (None, [("1", "one"), ("3", "two"), ("4", "thrée"), ("7", "four")]),
        ("paragraph", [("1", "one"), ("3", "two\nthrée"), ("7", "four")]),
        ("file", [("", "one\r\n\ntwo\nthrée\n  \n\nfour")]),
    ],
)
def test_plain_text_by_unit(poem: Path, unit, expected: list[tuple[str, str]]) -> None:
    source = open_data(str(poem), "text", ReadOptions(unit=unit))
    assert contents(source) == expected
    assert source.read(0).sha256 == sha(expected[0][1])


def test_ids_do_not_depend_on_what_else_is_read(poem: Path) -> None:
    source = open_data(str(poem), "text")
    ordinals = select_samples(source, sample=2, seed=3)
    ids = [label for label, _ in contents(source)]
    assert [source.read(int(k)).id for k in ordinals] == [ids[k] for k in ordinals]


def test_a_directory_is_read_in_order_of_its_paths(tmp_path: Path, poem: Path) -> None:
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "x.txt").write_text("last")
    (tmp_path / "a.jsonl").write_text('{"text": "first"}\n')
    (tmp_path / ".hidden.txt").write_text("never")
    whole = contents(open_data(str(tmp_path), "text"))
    assert [label for label, _ in whole] == ["a.jsonl:1", "b/x.txt", "poem.txt"]
    lines = contents(open_data(str(tmp_path), "text", ReadOptions(unit="line")))
    assert [label for label, _ in lines][1:3] == ["b/x.txt:1", "poem.txt:1"]


def test_links_out_of_a_directory_are_not_followed(tmp_path: Path, poem: Path) -> None:
    inside = tmp_path / "inside"
    inside.mkdir()
    (inside / "own.txt").write_text("own")
    (inside / "link.txt").symlink_to(poem)
    assert len(open_data(str(inside), "text")) == 1


@pytest.mark.parametrize("ending", ["jsonl", "csv", "parquet"])
def test_tables_give_the_same_samples(tmp_path: Path, ending: str) -> None:
    frame = pandas.DataFrame({"name": ["u", "v"], "body": ["hello there", 'a "quoted",\nline']})
    path = tmp_path / f"t.{ending}"
    if ending == "jsonl":
        path.write_text("".join(json.dumps(r) + "\n" for r in frame.to_dict("records")))
    elif ending == "csv":
        frame.to_csv(path, index=False)
    else:
        pytest.importorskip("pyarrow")
        frame.to_parquet(path, row_group_size=1)
    named = open_data(str(path), "text", ReadOptions(column="body", id_column="name"))
    assert contents(named) == [("u", "hello there"), ("v", 'a "quoted",\nline')]
    assert named.read(1).sha256 == sha('a "quoted",\nline')
    numbered = open_data(str(path), "text", ReadOptions(column="body"))
    assert [label for label, _ in contents(numbered)] == ["1", "2"]
    with pytest.raises(InputError, match=r"'text' .*t\.\w+"):
        contents(open_data(str(path), "text"))


def test_a_table_with_semicolons_is_read_and_described_so(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("id;text\na;hello, world\nb;two\n")
    source = open_data(str(tmp_path / "t.csv"), "text", ReadOptions(id_column="id"))
    assert contents(source) == [("a", "hello, world"), ("b", "two")]
    assert source.description["delimiter"] == ";"


def test_a_row_of_a_table_without_its_id_is_refused(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("id,text\na,one\n,two\n")
    with pytest.raises(InputError, match="row 2"):
        open_data(str(tmp_path / "t.csv"), "text", ReadOptions(id_column="id"))


def test_the_description_names_content_and_not_places(tmp_path: Path, poem: Path) -> None:
    before = open_data(str(poem), "text").description
    moved = tmp_path / "elsewhere"
    moved.mkdir()
    again = Path(poem.rename(moved / "poem.txt"))
    assert open_data(str(again), "text").description == before
    assert str(tmp_path) not in json.dumps(before)
    again.write_text("other")
    assert open_data(str(again), "text").description != before


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("x.jsonl", b"{", "JSON"),
        ("x.jsonl", b"[" * 50_000, "JSON"),
        ("x.jsonl", b"[1]", "list"),
        ("x.jsonl", b'{"text": 3}', "line 1"),
        ("x.jsonl", b'{"a": 3}', r"'text'.*\ba\b"),
        ("x.jsonl", b'{"text": "lone \\ud800"}', "surrogate"),
        ("x.csv", b"a,b\n1,2\n", "'text'.* a, b"),
        ("x.csv", b"text\n\xff\xfe\n", "UTF-8"),
        ("x.csv", b"text\nhello, world\n", "line 2"),
        ("x.csv", b"id,text\na,one\ntwo\n", "line 3"),
        ("x.csv", b"text,label\none, two,1\nthree, four,0\n", "line 2"),
        ("x.parquet", b"PAR0", "readable"),
        ("x.txt", b"ok\n\xff\xfe\n", "line 2.* UTF-8"),
        ("x.bin", b"", r"\.csv"),
    ],
)
def test_unusable_text_gets_one_line(
    tmp_path: Path, name: str, content: bytes, message: str
) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError, match=message) as failure:
        contents(open_data(str(tmp_path / name), "text"))
    assert name in str(failure.value)


@pytest.mark.parametrize("label", ["null", "true", '""', "{}", "[1]", "1.5"])
def test_ids_that_are_no_text_or_whole_number_are_refused(tmp_path: Path, label: str) -> None:
    (tmp_path / "x.jsonl").write_text(f'{{"text": "a", "id": {label}}}\n')
    with pytest.raises(InputError, match=r"line 1 .*'id'"):
        contents(open_data(str(tmp_path / "x.jsonl"), "text", ReadOptions(id_column="id")))


def test_damaged_pages_and_missing_ids_of_parquet_are_refused(tmp_path: Path) -> None:
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    table = pa.table({"id": ["a", None], "text": ["some thing", "other thing"]})
    path = tmp_path / "t.parquet"
    pq.write_table(table, path, compression="none", use_dictionary=False)
    with pytest.raises(InputError, match=r"row 2 .*'id'"):
        contents(open_data(str(path), "text", ReadOptions(id_column="id")))
    whole = path.read_bytes()
    for old, new in ((b"some thing", b"some \xff\xfeing"), (b"\x0a\x00\x00\x00some", b"\xff" * 8)):
        assert old in whole
        path.write_bytes(whole.replace(old, new))
        with pytest.raises(InputError, match=r"t.parquet.*readable"):
            contents(open_data(str(path), "text"))
    pq.write_table(pa.table([["a"], ["b"]], names=["text", "text"]), path)
    with pytest.raises(InputError, match="two columns"):
        open_data(str(path), "text")


def damaged(content: bytes, chance: random.Random) -> bytes:
    """Flip a bit, put a delimiter, cut the end off, or cut a piece out."""
    parts, at = bytearray(content), chance.randrange(len(content))
    kind = chance.randrange(4)
    if kind == 0:
        parts[at] ^= 1 << chance.randrange(8)
    elif kind == 1:
        parts[at] = chance.choice(b'",;\n\t\0\r\\{}')
    else:
        del parts[at : None if kind == 2 else at + chance.randrange(1, 40)]
    return bytes(parts)


@pytest.mark.parametrize("ending", ["csv", "jsonl", "txt", "parquet"])
def test_damaged_texts_are_read_or_refused(tmp_path: Path, ending: str) -> None:
    lines = [f"the {number}th, “quoted” line" for number in range(30)]
    frame = pandas.DataFrame({"id": [f"r{number}" for number in range(30)], "text": lines})
    path = tmp_path / f"t.{ending}"
    if ending == "parquet":
        pytest.importorskip("pyarrow")
        frame.to_parquet(path, row_group_size=10)
    elif ending == "csv":
        frame.to_csv(path, index=False)
    else:
        rows = lines if ending == "txt" else map(json.dumps, frame.to_dict("records"))
        path.write_text("\n".join(rows))
    content, chance = path.read_bytes(), random.Random(ending)
    for _ in range(60):
        path.write_bytes(damaged(content, chance))
        with suppress(RepalignError):
            contents(open_data(str(path), "text", ReadOptions(id_column="id")))


def test_missing_and_empty_data(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="nowhere"):
        open_data("nowhere", "text")
    with pytest.raises(InputError, match="no files"):
        open_data(str(tmp_path), "text")
    (tmp_path / "blank.txt").write_text(" \n\n")
    with pytest.raises(InputError, match="no samples"):
        select_samples(open_data(str(tmp_path / "blank.txt"), "text"))


def test_selections_are_seeded_ordered_and_checked(tmp_path: Path) -> None:
    (tmp_path / "n.txt").write_text("".join(f"{k}\n" for k in range(50)))
    source = open_data(str(tmp_path / "n.txt"), "text")
    one, same = (select_samples(source, limit=40, sample=10, seed=1) for _ in range(2))
    other = select_samples(source, limit=40, sample=10, seed=2)
    assert one.tolist() == same.tolist() == sorted(one.tolist())
    assert one.tolist() != other.tolist()
    assert one.max() < 40
    assert select_samples(source, limit=3).tolist() == [0, 1, 2]
    with pytest.raises(InputError, match=r"--sample 51.* 50"):
        select_samples(source, sample=51)
    with pytest.raises(InputError, match="limit"):
        ExtractSettings("m", "d", tmp_path / "a.h5", limit=0)


def test_the_text_in_the_package(tmp_path: Path) -> None:
    source = open_data("builtin:shakespeare", "text")
    assert contents(source) == contents(open_data("shakespeare", "text"))
    assert len(source) > 500
    assert str(source.read(0).value).startswith("First Citizen")
    with pytest.raises(InputError, match=r"builtin:digits .*image.* text"):
        open_data("builtin:digits", "text")


def test_data_sets_by_name(tmp_path: Path) -> None:
    try:
        import datasets
    except ImportError:
        with pytest.raises(MissingExtraError, match="pip install datasets"):
            open_data("datasets:some/name", "text")
        return
    assert datasets
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "train.jsonl").write_text('{"text": "a b"}\n{"text": "c"}\n')
    source = open_data(f"datasets:{tmp_path / 'd'}@train", "text")
    assert contents(source) == [("0", "a b"), ("1", "c")]
