"""Tables of delimited text: one strict reader for embeddings, ids, factors, labels and texts.

Every row has as many cells as the first one, or the table is refused with the number of the line.
Delimiter and decimal mark are found from the first rows.
"""

import csv
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from io import StringIO, TextIOWrapper
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from repalign.exceptions import InputError
from repalign.files import open_regular
from repalign.printable import counted, listing

if TYPE_CHECKING:
    import pandas as pd

ID_NAMES = ("id", "ids", "sample_id")  # columns and arrays of these names are identifiers
WHITE_SPACE = " "  # as a delimiter: blanks and tabs, however many
DELIMITERS = {".csv": (",", ";", "\t"), ".tsv": ("\t",), ".txt": (WHITE_SPACE, ",", ";", "\t")}
MAX_COLUMNS = 2**15  # a column costs a fraction of a millisecond, however few the rows
MAX_LINE = 2**26
SAMPLE_ROWS = 100
SAMPLE_CHARACTERS = 2**20
BLOCK_CHARACTERS = 2**25
_EXPONENT = r"(?:e[+-]?\d+)?"
_NUMBERS = {
    ".": re.compile(rf"[+-]?(?:\d+\.?\d*|\.\d+){_EXPONENT}|[+-]?(?:nan|inf|infinity)", re.A | re.I),
    ",": re.compile(rf"[+-]?(?:\d*,)?\d+{_EXPONENT}|[+-]?(?:nan|inf|infinity)", re.A | re.I),
}
# Digits of any script with marks between them: no number that is read, and no text either.
_NUMBER_LIKE = re.compile(rf"[+-]?[.,_' ]?\d[\d.,_' ]*{_EXPONENT}", re.I)


def is_number(cell: str, decimal: str = ".") -> bool:
    """Tell whether a cell is a number in ASCII digits, with this decimal mark."""
    return _NUMBERS[decimal].fullmatch(cell.strip(" \t\r\n")) is not None


def is_text(cell: str) -> bool:
    """Tell whether a cell is text, and nothing that could be meant as a number."""
    text = cell.strip()
    return not is_number(text) and _NUMBER_LIKE.fullmatch(text) is None


@dataclass(frozen=True)
class DelimitedText:
    """A table of delimited text: its layout, and its rows, each with one cell per column.

    Args:
        path: the file.
        delimiter: what separates cells; a blank stands for any white space.
        decimal: decimal mark of the numbers.
        names: names of the columns, or their numbers without a header. The first is empty where
            rows have names and the header has no cell for them, as R writes tables.
        has_header: whether the first line names the columns.
        head: cells of the first row below the header, if there is one.
    """

    path: Path
    delimiter: str
    decimal: str
    names: tuple[str, ...]
    has_header: bool
    head: tuple[str, ...] = ()

    @property
    def layout(self) -> dict[str, str]:
        """Delimiter and decimal mark in words."""
        words = {"\t": "tab", WHITE_SPACE: "white space"}
        return {"delimiter": words.get(self.delimiter, self.delimiter), "decimal": self.decimal}

    def blocks(self) -> Iterator[str]:
        """Yield the text of the rows below the header, in blocks of whole rows.

        Raises:
            InputError: a row has more or fewer cells than there are columns.
        """
        texts: list[str] = []
        size = 0
        for text in self._texts():
            texts.append(text)
            size += len(text)
            if size >= BLOCK_CHARACTERS:
                yield "".join(texts)
                texts, size = [], 0
        if texts:
            yield "".join(texts)

    def records(self) -> Iterator[list[str]]:
        """Yield the cells of every row below the header.

        Raises:
            InputError: as for ``blocks``.
        """
        return (_cells(text, self.delimiter) for text in self._texts())

    def _texts(self) -> Iterator[str]:
        """Yield the text of every row below the header."""
        for line, text, n_cells in islice(_rows(self.path, self.delimiter), self.has_header, None):
            n_expected = len(self.names)
            if n_cells != n_expected:
                raise InputError(
                    f"{self.path}: line {line} has {counted(n_cells, 'cell')}, expected "
                    f"{n_expected} as in the first lines; give every row one cell per column, and "
                    f"quote cells that contain the delimiter ({self.layout['delimiter']})"
                )
            yield text

    def parse(self, block: str, names: Sequence[str], **options: Any) -> "pd.DataFrame":
        """Return columns of a block as a frame in the order of the file, by pandas.

        Raises:
            ValueError: a cell is not of the type that the options ask for.
        """
        import pandas as pd

        if not names:
            return pd.DataFrame()
        frame: pd.DataFrame = pd.read_csv(
            StringIO(block, newline=""),
            sep=r"\s+" if self.delimiter == WHITE_SPACE else self.delimiter,
            decimal=self.decimal,
            header=None,
            names=list(self.names),
            usecols=list(names),
            index_col=False,
            skip_blank_lines=False,
            float_precision="round_trip",  # exact; a long exponent crashes the faster ways
            **options,
        )
        return frame

    def place(self, name: str) -> int:
        """Return the number of a column.

        Raises:
            InputError: there is none of this name.
        """
        if name not in self.names or not self.has_header:
            raise InputError(f"{self.path}: has no column {name!r}; it has {listing(self.names)}")
        return self.names.index(name)


def open_delimited(
    path: Path, *, has_header: bool | None = None, row_names: bool = True
) -> DelimitedText:
    """Find the layout of a table of text from its first rows.

    Args:
        path: the file; in ``.tsv`` only tabs separate cells, in ``.txt`` also white space.
        has_header: whether the first line names the columns; by default it does, unless all its
            cells are numbers.
        row_names: whether rows may have one cell more than the header, their name.

    Raises:
        InputError: the file is empty, is not UTF-8 text, or its columns have no clear names.
    """
    usual, *others = DELIMITERS.get(path.suffix.lower(), DELIMITERS[".csv"])
    failure: InputError | None = None
    candidates: list[_Candidate] = []
    for delimiter in (usual, *others):
        try:
            candidates.append(_Candidate(delimiter, _sample(path, delimiter), row_names=row_names))
        except InputError as error:
            failure = failure or (error if delimiter == usual else None)
    best = max(candidates, key=lambda candidate: candidate.score, default=None)
    if best is None or not best.splits:  # one column, of which nothing says that it is not so
        if failure is not None:
            raise failure
        best = candidates[0]
    if not best.records:
        raise InputError(f"{path}: is empty; expected a table")
    first = best.records[0]
    if has_header is None:
        has_header = best.has_header
    names = tuple(first) if has_header else tuple(str(place) for place in range(len(first)))
    if has_header and best.has_row_names:
        names = ("", *names)
    if len(names) > MAX_COLUMNS:
        raise InputError(
            f"{path}: has {len(names)} columns; at most {MAX_COLUMNS} are read from text, save "
            "wider tables as .npy"
        )
    duplicate = next((name for name, count in Counter(names).items() if count > 1), None)
    if duplicate is not None:
        raise InputError(f"{path}: has two columns {duplicate!r}; rename one")
    head = tuple(best.records[has_header]) if len(best.records) > has_header else ()
    return DelimitedText(path, best.delimiter, best.decimal, names, has_header, head)


class _Candidate:
    """The first rows of a table, as one delimiter cuts them."""

    def __init__(self, delimiter: str, records: list[list[str]], *, row_names: bool) -> None:
        self.delimiter = delimiter
        self.records = records
        self.decimal = "."
        cells = [cell for record in records[1:] or records for cell in record if cell.strip()]
        share = _number_share(cells, ".")
        if delimiter != "," and _number_share(cells, ",") > share:
            self.decimal, share = ",", _number_share(cells, ",")
        width = len(records[0]) if records else 0
        widths = {len(record) for record in records[1:]}
        self.has_row_names = (
            row_names
            and width > 1
            and widths == {width + 1}
            # a delimiter at the end of every row is not a name at its start
            and all(record[-1].strip() for record in records[1:])
            and not all(is_number(cell, self.decimal) for cell in records[0])
        )
        self.splits = width > 1
        fits = self.has_row_names or widths <= {width}
        self.score = (self.splits, fits, share, width)

    @property
    def has_header(self) -> bool:
        """Whether the first row names the columns, and is not one of numbers."""
        first, *rows = self.records
        if not all(is_number(cell, self.decimal) for cell in first):
            return True
        # pandas names columns without a name 0, 1, 2, …
        is_count = len(first) > 1 and first == [str(place) for place in range(len(first))]
        return is_count and any(not cell.strip().isdecimal() for row in rows for cell in row)


def _number_share(cells: Sequence[str], decimal: str) -> float:
    return sum(is_number(cell, decimal) for cell in cells) / max(len(cells), 1)


def _sample(path: Path, delimiter: str) -> list[list[str]]:
    """Return the cells of the first rows, at least two of them however long."""
    records: list[list[str]] = []
    size = 0
    for _, text, _ in islice(_rows(path, delimiter), SAMPLE_ROWS):
        records.append(_cells(text, delimiter))
        size += len(text)
        if len(records) > 1 and size > SAMPLE_CHARACTERS:
            break
    return records


def _rows(path: Path, delimiter: str) -> Iterator[tuple[int, str, int]]:
    """Yield the number of the first line, the text and the number of cells of every row."""
    number = blank = 0
    with TextIOWrapper(open_regular(path), encoding="utf-8-sig", newline="") as stream:
        lines = iter(partial(stream.readline, MAX_LINE + 1), "")
        try:
            for line in lines:
                start = number = number + 1
                text = line
                if len(line) > MAX_LINE:
                    raise InputError(f"{path}: line {start} has more than {MAX_LINE} characters")
                if line.isspace() and (delimiter == WHITE_SPACE or delimiter not in line):
                    blank = blank or start
                    continue
                if blank:
                    raise InputError(f"{path}: line {blank} is blank; remove it, or fill the row")
                if '"' in line:
                    row_lines = [line]
                    is_whole = line.count('"') % 2 == 0
                    row = row_lines if is_whole else _more_lines(row_lines, lines)
                    n_cells = len(next(_reader(row, delimiter)))
                    number += len(row_lines) - 1
                    text = "".join(row_lines)
                elif delimiter == WHITE_SPACE:
                    n_cells = len(line.split())
                else:
                    n_cells = line.count(delimiter) + 1
                if "\0" in text:
                    raise InputError(f"{path}: line {start} holds a NUL; it is not text")
                yield start, text, n_cells
        except UnicodeDecodeError as error:
            raise InputError(f"{path}: is not UTF-8 text; convert the file") from error
        except csv.Error as error:
            raise InputError(
                f"{path}: line {start} is not a readable row ({error}); check its quotation marks"
            ) from error


def _more_lines(row_lines: list[str], lines: Iterator[str]) -> Iterator[str]:
    """Yield the line that is read already, and more of them, which are added to the list."""
    yield row_lines[0]
    for line in lines:
        row_lines.append(line)
        yield line


def _cells(text: str, delimiter: str) -> list[str]:
    """Return the cells of the text of one row."""
    if '"' in text:
        return next(_reader(StringIO(text, newline=""), delimiter))
    if delimiter == WHITE_SPACE:
        return text.split()
    return text.rstrip("\r\n").split(delimiter)


def _reader(lines: Iterable[str], delimiter: str) -> Iterator[list[str]]:
    if delimiter == WHITE_SPACE:  # one blank for each run of white space outside of quotes
        lines = (
            re.sub(r'("[^"]*")|\s+', lambda run: run[1] or " ", line).strip() for line in lines
        )
    return csv.reader(lines, delimiter=delimiter, strict=True)
