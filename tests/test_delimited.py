"""Tables of text: the layout found, rows of another width refused, cells given back as written."""

import csv
import random
from pathlib import Path

import pytest

from repalign.delimited import open_delimited
from repalign.exceptions import InputError


def write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8", newline="")
    return path


@pytest.mark.parametrize(
    ("name", "text", "delimiter", "decimal", "names"),
    [
        ("a.csv", "a,b\n1.5,2\n", ",", ".", ("a", "b")),
        ("a.csv", "a;b\n1,5;2\n", ";", ",", ("a", "b")),
        ("a.csv", "1,5;2,5\n3,25;4\n", ";", ",", ("0", "1")),
        ("a.csv", "a;b\n1.5;2\n", ";", ".", ("a", "b")),
        ("a.csv", "a\tb\n1\t2\n", "\t", ".", ("a", "b")),
        ("a.csv", "id,note\nx,one; two\ny,three; four\n", ",", ".", ("id", "note")),
        ("a.csv", 'id;note\nx;"a, b"\ny;"c, d"\n', ";", ".", ("id", "note")),
        ("a.csv", 'text\n"one, two"\nthree\n', ",", ".", ("text",)),
        ("a.tsv", "a\tb\n1,5\t2\n", "\t", ",", ("a", "b")),
        ("a.txt", "1.5  2\n3\t4\n", " ", ".", ("0", "1")),
        ("a.txt", "1, 2.5\n3, 4\n", ",", ".", ("0", "1")),
        ("a.csv", "0,1,2\n0.5,1,2\n", ",", ".", ("0", "1", "2")),  # the header of pandas
    ],
)
def test_delimiter_decimal_mark_and_names_are_found(
    tmp_path: Path, name: str, text: str, delimiter: str, decimal: str, names: tuple[str, ...]
) -> None:
    table = open_delimited(write(tmp_path / name, text))

    assert (table.delimiter, table.decimal, table.names) == (delimiter, decimal, names)
    assert len(list(table.records())) == text.count("\n") - table.has_header


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.csv", '"V1","V2"\n"one",0.5,1.5\n"two",2,3\n'),
        ("a.csv", "V1,V2\n1,0.5,1.5\n2,2,3\n"),
        ("a.txt", '"V1" "V2"\n"one" 0.5 1.5\n"2" 2 3\n'),
    ],
)
def test_names_of_rows_that_the_header_does_not_count_are_a_column(
    tmp_path: Path, name: str, text: str
) -> None:
    table = open_delimited(write(tmp_path / name, text))

    assert table.names == ("", "V1", "V2")
    assert [float(record[1]) for record in table.records()] == [0.5, 2]


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("a,b\n1,2\n3,4,5\n", 3),
        ("a,b\n1,2\n3\n", 3),
        ("a,b\n1,2,\n3,4,\n", 2),
        ("text\nhello, world\n", 2),
        ("a,b\n1,2\n\n3,4\n", 3),
        ('a,b\n"x\ny",2\n3\n', 4),
        ('a,b\n1,2\n"x,3\n', 3),
        ("a,b\n1,2\n3,\x004\n", 3),
    ],
)
def test_a_row_that_is_not_as_wide_as_the_table_is_named(
    tmp_path: Path, text: str, line: int
) -> None:
    with pytest.raises(InputError, match=rf"a\.csv.* line {line}\b"):
        list(open_delimited(write(tmp_path / "a.csv", text)).records())


def test_a_row_behind_the_first_ones_is_checked_too(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", "a,b\n" + "1,2\n" * 5000 + "3\n")
    table = open_delimited(path)
    for read in (table.blocks, table.records):
        with pytest.raises(InputError, match="line 5002"):
            list(read())


@pytest.mark.parametrize(
    ("content", "word"),
    [(b"", "empty"), (b"a,b\n\xff,1\n", "UTF-8"), (b"a,b,a\n1,2,3\n", "two columns")],
)
def test_files_that_are_no_tables_are_refused(tmp_path: Path, content: bytes, word: str) -> None:
    (tmp_path / "a.csv").write_bytes(content)
    with pytest.raises(InputError, match=word):
        open_delimited(tmp_path / "a.csv")


def test_what_is_written_is_read(tmp_path: Path) -> None:
    """Random cells with quotes, delimiters and line breaks, as the module csv writes them."""
    chance = random.Random(0)
    pieces = ["a", "é", " ", ",", ";", '"', "\n", "\r\n", "0.5", "\u2028", "\x0b"]
    for number in range(60):
        width = chance.randrange(2, 5)
        rows = [
            ["".join(chance.choices(pieces, k=chance.randrange(1, 4))) for _ in range(width)]
            for _ in range(chance.randrange(1, 8))
        ]
        path = tmp_path / f"{number}.csv"
        with path.open("w", encoding="utf-8", newline="") as stream:
            csv.writer(stream).writerows([[f"column {k}" for k in range(width)], *rows])

        table = open_delimited(path)

        assert list(table.records()) == rows
        frame = table.parse("".join(table.blocks()), table.names, dtype=str, na_filter=False)
        assert frame.to_numpy().tolist() == rows
