"""What all figures share: a canvas without a window, colours, and SVG for a page."""

import functools
import io
import re
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from repalign.exceptions import InputError
from repalign.files import writing

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

P = ParamSpec("P")
R = TypeVar("R")
# Told apart by people who do not tell red from green, on white and on black paper.
BLUE, ORANGE, GREY = "#4477aa", "#ee7733", "#888888"
_BLACK = "#000000"


@contextmanager
def default_style() -> Iterator[None]:
    """Draw with matplotlib's defaults, whatever the user's settings are."""
    import matplotlib

    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        yield


def in_default_style(draw: Callable[P, R]) -> Callable[P, R]:
    """Return a function that draws with matplotlib's defaults."""

    @functools.wraps(draw)
    def styled(*args: P.args, **kwargs: P.kwargs) -> R:
        with default_style():
            return draw(*args, **kwargs)

    return styled


def new_figure(width: float = 4.6, height: float = 3.2) -> "Figure":
    """Return an empty figure of that many inches."""
    with default_style():
        from matplotlib.figure import Figure

        return _shown_in_notebooks(Figure)(figsize=(width, height), layout="constrained")


@functools.cache
def _shown_in_notebooks(figure: type["Figure"]) -> type["Figure"]:
    """Return the class of figures that a notebook shows, with pyplot or without it."""

    class Drawing(figure):  # type: ignore[misc,valid-type]
        def _repr_png_(self) -> bytes:
            stream = io.BytesIO()
            save(self, stream, format="png", dpi=100)
            return stream.getvalue()

    return Drawing


def plain_axes(figure: "Figure") -> "Axes":
    """Return one panel without a frame on the right and above."""
    axes = figure.subplots()
    axes.spines[["top", "right"]].set_visible(False)
    return axes


def cut_middle(name: str, longest: int) -> str:
    """Shorten a name in its middle, which says less than its ends.

    Example:
        >>> cut_middle("checkpoints/run-3/layer-12", 16)
        'checkpo…layer-12'
    """
    half = longest // 2
    return name if len(name) <= longest else f"{name[: half - 1]}…{name[-half:]}"


def save(figure: "Figure", out: Any, style: Any = None, **options: Any) -> None:
    """Write a figure in the default style and this; a letter that no font has becomes a box."""
    with default_style(), warnings.catch_warnings():
        import matplotlib

        matplotlib.rcParams.update(style or {})
        warnings.filterwarnings("ignore", message="Glyph .* missing from")
        figure.savefig(out, **options)


def figure_kind(figure: "Figure", path: Path) -> str:
    """Return the format that the ending of a file says.

    Raises:
        InputError: No figure can be written with that ending.
    """
    kind = path.suffix.lower().removeprefix(".")
    if kind not in figure.canvas.get_supported_filetypes():
        raise InputError(
            f"{path}: no figure can be written with the ending '{path.suffix}'; expected for "
            "example .png, .pdf or .svg"
        )
    return kind


def written(figure: "Figure", path: str | Path | None) -> "Figure":
    """Return a figure, after it was written to a file where one is given.

    Raises:
        InputError: No figure can be written with that ending, or there.
    """
    if path is not None:
        if not isinstance(path, str | Path):
            raise InputError(f"plot: got {path!r}, expected the path of a file such as x.png")
        kind = figure_kind(figure, Path(path))
        with writing(Path(path)) as whole:
            save(figure, whole, dpi=150, format=kind)
    return figure


def svg_of(figure: "Figure", name: str) -> str:
    """Return a figure as an SVG element that takes the colour of the text around it.

    ``name`` keeps the identifiers of several figures on one page apart.
    """
    style: Any = {"svg.fonttype": "none", "svg.hashsalt": name, "font.family": "sans-serif"}
    stream = io.StringIO()
    save(figure, stream, style, format="svg", transparent=True, metadata={"Date": None})
    text = stream.getvalue()
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    # inside HTML the namespaces are known, and a page without addresses is seen to need none
    text = re.sub(r' xmlns(:xlink)?="[^"]*"', "", text)
    # axes and figure groups are numbered from 1 in every figure
    text = re.sub(r'(?<= id=")', f"{name}-", text)
    text = re.sub(r'(?<=href="#)', f"{name}-", text)
    text = re.sub(r"(?<=url\(#)", f"{name}-", text)
    return text.replace(_BLACK, "currentColor")
