"""Text from files made fit to be shown: on a terminal, in CSV, Markdown, LaTeX, HTML, a figure.

Names, ids, licences and versions come from files that anyone may have written. Every place that
shows text sends it through one of these functions.
"""

import html
import math
import re
import unicodedata
from collections.abc import Sequence

# Joiners that words and emoji are written with; they move nothing.
_HARMLESS = {"\u200c", "\u200d"}
_HIDDEN = {"Cc", "Cf", "Cs", "Zl", "Zp"}
_MARKDOWN = re.compile(r"[\\`*{}\[\]<>|~$&!#]|(?<![^\W_])_|_(?![^\W_])|(?<=:)/(?=/)")
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
# What a spreadsheet takes for the start of a formula.
_FORMULA = ("=", "+", "-", "@")
_GUARD = "'"
_BYTE_UNITS = ("bytes", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")


def _latex_greek(letter: str) -> str:
    """Return the command of a Greek letter, which text fonts of LaTeX lack."""
    name = unicodedata.name(letter).split()[-1].replace("LAMDA", "LAMBDA").lower()
    return rf"$\{name.title() if letter.isupper() else name}$"


_LATEX = str.maketrans(
    {
        "\\": r"\textbackslash{}",
        "~": r"\textasciitilde{}",
        "^": r"\textasciicircum{}",
        "<": r"\textless{}",
        ">": r"\textgreater{}",
        "|": r"\textbar{}",
        "→": r"$\to$",
        "↓": r"$\downarrow$",
        "↑": r"$\uparrow$",
        "‖": r"$\|$",
        "−": "$-$",
        "–": "--",
        "±": r"$\pm$",
        "×": r"$\times$",
        "½": r"$\frac{1}{2}$",
        "²": "$^2$",
        "≤": r"$\leq$",
        "≥": r"$\geq$",
        "√": r"$\surd$",
    }
    | {letter: _latex_greek(letter) for letter in "αβγδεζηθικλμνξπρστυφχψωΓΔΘΛΞΠΣΥΦΨΩ"}
    | {letter: "\\" + letter for letter in "&%$#_{}"}
)


def printable(text: str) -> str:
    r"""Return text in one line in which nothing acts: control and hidden characters as ``\x1b``."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(_escaped(letter) if _acts(letter) else letter for letter in text)


def _acts(letter: str) -> bool:
    return letter not in _HARMLESS and unicodedata.category(letter) in _HIDDEN


def _escaped(letter: str) -> str:
    return letter.encode("unicode_escape").decode("ascii")


def for_csv(text: str) -> str:
    """Return a cell that no spreadsheet takes for a formula: ``'`` stands before what looks so.

    A number stays as it is.
    """
    text = printable(text)
    return _GUARD + text if _is_formula(text) else text


def from_csv(cell: str) -> str:
    """Return the text that ``for_csv`` guarded."""
    bare = cell.removeprefix(_GUARD)
    return bare if _is_formula(bare) else cell


def _is_formula(text: str) -> bool:
    # the first letters of what has a guard already, so that it can be told from what has none
    start = text.lstrip(_GUARD)
    return start.startswith(_FORMULA) and not _NUMBER.fullmatch(start)


def for_markdown(text: str) -> str:
    """Return text in which Markdown finds no mark, no link and no cell."""
    return _MARKDOWN.sub(lambda found: "\\" + found.group(), printable(text))


def for_latex(text: str) -> str:
    """Return text that LaTeX sets as it is, arrows, signs and Greek as mathematics."""
    # two hyphens would be a dash; a line break takes * and [ behind it as its argument
    apart = re.sub(r"^(?=[*\[])|(?<=-)(?=-)", "\0", printable(text))
    return apart.translate(_LATEX).replace("\0", "{}")


def for_html(text: str) -> str:
    """Return text as the content or an attribute of an HTML element."""
    return html.escape(printable(text))


def for_figure(text: str) -> str:
    """Return text in which matplotlib finds no mathematics."""
    return printable(text).replace("$", r"\$")


def listing(names: Sequence[str], most: int = 12) -> str:
    """Return names in a row; of many the first ones and the last.

    Example:
        >>> listing(["a", "b"]), listing(list("abcdefgh"), most=4)
        ('a, b', 'a, b, c, …, h')
    """
    shown = list(names) if len(names) <= most else [*names[: most - 1], "…", names[-1]]
    return ", ".join(name or "(no name)" for name in shown)


def byte_size(n_bytes: float, *, up: bool = False) -> str:
    """Return a number of bytes for people, rounded to three digits, or up to them.

    Example:
        >>> byte_size(2**31), byte_size(12895387648), byte_size(12895387648, up=True)
        ('2 GiB', '12 GiB', '12.1 GiB')
    """
    unit = min(max(int(n_bytes).bit_length() - 1, 0) // 10, len(_BYTE_UNITS) - 1)
    amount = n_bytes / 1024**unit
    scale = 100 if amount < 10 else 10 if amount < 100 else 1
    whole = math.ceil(amount * scale) if up else round(amount * scale)
    return f"{whole / scale:g} {_BYTE_UNITS[unit]}"


def counted(number: int, what: str) -> str:
    """Return a number of things in words.

    Example:
        >>> counted(1, "row"), counted(3, "row")
        ('1 row', '3 rows')
    """
    return f"{number} {what}{'' if number == 1 else 's'}"
