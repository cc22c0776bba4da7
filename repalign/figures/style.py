"""The style of all figures: a canvas without a window, colours, names, and how they are written."""

import io
import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from repalign.exceptions import InputError
from repalign.files import writing

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Told apart by people who do not tell red from green, on white and on black paper.
BLUE, ORANGE, GREY = "#4477aa", "#ee7733", "#888888"
LINES = (BLUE, ORANGE, "#228833", "#aa3377", "#66ccee", "#ccbb44", GREY)
SIDES = {"source": BLUE, "target": ORANGE}
SPLITS = {"in-sample": BLUE, "held-out": ORANGE}
_SVG = {"svg.fonttype": "none", "font.family": "sans-serif"}


@contextmanager
def default_style() -> Iterator[None]:
    """Draw with matplotlib's defaults, whatever the user's settings are; also a decorator."""
    import matplotlib

    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        yield


@default_style()
def new_figure(width: float = 4.6, height: float = 3.2) -> "Figure":
    """Return an empty figure of that many inches, which a notebook shows without pyplot."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    figure._repr_png_ = partial(_png, figure)  # type: ignore[attr-defined]
    return figure


def new_panel(width: float = 4.6, height: float = 3.2) -> "tuple[Figure, Axes]":
    """Return a figure with one panel, without a frame on the right and above."""
    figure = new_figure(width, height)
    panel = figure.subplots()
    panel.spines[["top", "right"]].set_visible(False)
    return figure, panel


def add_legend(figure: "Figure", n_columns: int = 2) -> None:
    """Put the legend of all panels below them."""
    figure.legend(loc="outside lower center", ncols=n_columns, frameon=False)


def cut_middle(name: str, longest: int) -> str:
    """Shorten a name in its middle, which says less than its ends.

    Example:
        >>> cut_middle("checkpoints/run-3/layer-12", 16)
        'checkpo…layer-12'
    """
    half = longest // 2
    return name if len(name) <= longest else f"{name[: half - 1]}…{name[-half:]}"


def figure_format(figure: "Figure", path: Path) -> str:
    """Return the format that the ending of a file stands for.

    Raises:
        InputError: No figure can be written with that ending.
    """
    ending = path.suffix.lower().removeprefix(".")
    if ending not in figure.canvas.get_supported_filetypes():
        raise InputError(
            f"{path}: no figure can be written with the ending '{path.suffix}'; expected for "
            "example .png, .pdf or .svg"
        )
    return ending


def write_figure(figure: "Figure", path: str | Path | None) -> "Figure":
    """Write a figure to a file where one is given, and return it.

    Raises:
        InputError: No figure can be written with that ending, or there.
    """
    if path is not None:
        if not isinstance(path, str | Path):
            raise InputError(f"plot: got {path!r}, expected the path of a file such as x.png")
        form = figure_format(figure, Path(path))
        with writing(Path(path)) as whole:
            _save(figure, whole, dpi=150, format=form)
    return figure


def as_svg(figure: "Figure", name: str) -> str:
    """Return a figure as an SVG element that takes the colour of the text around it.

    ``name`` keeps the identifiers of several figures on one page apart.
    """
    stream = io.StringIO()
    style = {**_SVG, "svg.hashsalt": name}
    _save(figure, stream, style, format="svg", transparent=True, metadata={"Date": None})
    text = stream.getvalue()
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    # inside HTML the namespaces are known, and a page without addresses is seen to need none
    text = re.sub(r' xmlns(:xlink)?="[^"]*"', "", text)
    # axes and figure groups are numbered from 1 in every figure
    text = re.sub(r'(?<= id=")|(?<=href="#)|(?<=url\(#)', f"{name}-", text)
    return text.replace("#000000", "currentColor")


def _png(figure: "Figure") -> bytes:
    stream = io.BytesIO()
    _save(figure, stream, format="png", dpi=100)
    return stream.getvalue()


@default_style()
def _save(figure: "Figure", out: Any, style: Any = None, **options: Any) -> None:
    """Write a figure; a letter that no font has becomes a box."""
    import matplotlib

    with warnings.catch_warnings():
        matplotlib.rcParams.update(style or {})
        warnings.filterwarnings("ignore", message="Glyph .* missing from")
        figure.savefig(out, **options)
