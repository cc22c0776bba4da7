"""An encoder: a module that is ready to run, its layers, and the rules for running it."""

import difflib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Literal, ParamSpec, TypeVar

from torch import Tensor, nn

from repalign.exceptions import InputError, ModelError, RepalignError, first_line
from repalign.models.families import Family

if TYPE_CHECKING:
    from repalign.models.inputs.images import ImageBackend, StackedImages


P = ParamSpec("P")
R = TypeVar("R")

# transformers, timm and torch take the values of a config as they are and fail, in their own code,
# at the first that does not fit: a number in place of a list (TypeError, AttributeError), a name
# that they do not have (KeyError, ImportError), a size of zero (ZeroDivisionError), too many layers
# or ids (IndexError), an option of an else that sets nothing (NameError), shapes (RuntimeError,
# AssertionError), a file that is named and not there (OSError), the rest ValueError. Where warnings
# are errors, torch also raises those of tensors of size zero.
MODEL_ERRORS: tuple[type[Exception], ...] = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    ImportError,
    LookupError,
    NameError,
    OSError,
    RuntimeError,
    TypeError,
    ValueError,
    Warning,
)
_SIGNS = (
    "out of memory",
    "can't allocate memory",
    "not enough memory",
    "_status_alloc_failed",  # of cuBLAS and cuDNN
)


class HookError(BaseException):
    """Carries an exception of our hook through the code of a library."""

    def __init__(self, error: Exception) -> None:
        super().__init__(str(error))
        self.error = error


def hook(function: Callable[P, R]) -> Callable[P, R]:
    """Return a hook whose exceptions pass ``running`` unchanged."""

    @wraps(function)
    def guarded(*arguments: P.args, **named: P.kwargs) -> R:
        try:
            return function(*arguments, **named)
        except Exception as error:
            raise HookError(error) from error

    return guarded


@contextmanager
def running(module: object, *errors: type[Exception]) -> Iterator[None]:
    """Map what a module raises in a forward pass.

    The block holds that pass and nothing else, apart from hooks (``hook``). Exhausted memory
    passes: a smaller batch may need less.

    Args:
        module: the module.
        errors: what it may raise, by default ``MODEL_ERRORS``.

    Raises:
        ModelError: it cannot take the input.
    """
    errors = errors or MODEL_ERRORS
    try:
        yield
    except HookError as failure:
        raise failure.error from None
    except RepalignError:
        raise
    except errors as error:
        if isinstance(error, RuntimeError) and is_out_of_memory(error):
            raise
        name = type(module).__name__
        raise ModelError(f"{name} cannot take this input: {first_line(error)}") from error


@contextmanager
def panics_as_errors() -> Iterator[None]:
    """Raise a panic of a Rust library, not an Exception, as a RuntimeError."""
    try:
        yield
    except BaseException as error:
        if type(error).__name__ != "PanicException":
            raise
        raise RuntimeError(first_line(error)) from error


def is_out_of_memory(error: RuntimeError) -> bool:
    """Return whether an error of torch means that memory is exhausted."""
    return any(sign in str(error).lower() for sign in _SIGNS)


Side = Literal["output", "input", "returned"]
FINAL, PRE_NORM, ALL, EMBEDDINGS = "final", "pre-norm", "all", "embeddings"


@dataclass(frozen=True)
class Tap:
    """A tensor of a model: output or input of a module, or the returned value."""

    label: str
    module: str
    side: Side = "output"


@dataclass(frozen=True)
class LayerMap:
    """The layers of a model: blocks, the final state, and that before its norm."""

    blocks: tuple[str, ...]
    final: Tap
    pre_norm: Tap | None
    modules: tuple[str, ...]


def map_layers(module: nn.Module, blocks: Sequence[str], final: Tap | None = None) -> LayerMap:
    """Build the map of a model whose blocks are known.

    Without ``final``, that is the output of the norm behind the blocks, or of the last block
    when there is none (BERT ends each block in its own norm).
    """
    if final is not None:
        return LayerMap(tuple(blocks), final, None, module_names(module))
    norm = find_final_norm(module, blocks)
    if norm is None:
        return LayerMap(tuple(blocks), Tap(FINAL, blocks[-1]), None, module_names(module))
    # what enters the norm, and not the last block's output: class-attention may stand between
    before = Tap(PRE_NORM, norm, "input")
    return LayerMap(tuple(blocks), Tap(FINAL, norm), before, module_names(module))


def module_names(module: nn.Module) -> tuple[str, ...]:
    """Return the names of all modules that a hook can be put on."""
    return tuple(name for name, _ in module.named_modules() if name)


def find_final_norm(module: nn.Module, blocks: Sequence[str]) -> str | None:
    """Return the name of the norm behind the last block, if there is one.

    It is the first child of the model that stands behind the one holding the blocks and is a
    norm of some kind. ``fc_norm`` is another thing: it follows the pooling.
    """
    holder = blocks[0].split(".")[0]
    names = [name for name, _ in module.named_children()]
    for name in names[names.index(holder) + 1 :]:
        if name != "fc_norm" and type(getattr(module, name)).__name__.endswith("Norm"):
            return name
    return None


def resolve_layers(layers: LayerMap, requests: Iterable[str]) -> tuple[Tap, ...]:
    """Turn layer names as users write them into taps, without repeats, in order.

    ``final``, ``pre-norm``, ``all`` (every block, then final), a number (``0`` is what enters
    the first block, ``k`` the output of block k, ``-1`` of the last block, ``-2`` of the one
    before it), or the name of any module.

    Raises InputError for a layer that the model does not have, with near matches.
    """
    taps: dict[str, Tap] = {}
    for request in requests:
        for tap in _resolve(layers, request):
            taps.setdefault(tap.label, tap)
    return tuple(taps.values())


def _resolve(layers: LayerMap, request: str) -> tuple[Tap, ...]:
    if request == FINAL:
        return (layers.final,)
    if request == PRE_NORM:
        if layers.pre_norm is None:
            raise InputError(
                "this model applies no norm after its last block, so it has no layer 'pre-norm'; "
                "use 'final' or '-1'"
            )
        return (layers.pre_norm,)
    if request == ALL:
        blocks = [_block(layers, k) for k in range(1, len(layers.blocks) + 1)]
        if blocks and layers.final.module == layers.blocks[-1]:
            blocks.pop()  # the final state is the last block's output
        return (*blocks, layers.final)
    try:
        number = int(request)
    except ValueError:
        return (_module(layers, request),)
    return (_block(layers, number),)


def _block(layers: LayerMap, number: int) -> Tap:
    count = len(layers.blocks)
    if not count:
        raise InputError(
            f"no layer {number}: this model has no list of blocks that each run once; expected "
            "final or a module's name (`repalign models show` lists them)"
        )
    position = number if number >= 0 else count + 1 + number
    if not 0 <= position <= count:
        raise InputError(
            f"no layer {number}: the model has {count} blocks; "
            f"expected 0 to {count}, or -1 to -{count + 1}"
        )
    if position == 0:
        return Tap(EMBEDDINGS, layers.blocks[0], "input")
    return Tap(f"block-{position}", layers.blocks[position - 1])


def _module(layers: LayerMap, name: str) -> Tap:
    if name in layers.modules:
        return Tap(name, name)
    names = (FINAL, PRE_NORM, ALL, *layers.modules)
    near = difflib.get_close_matches(name, names, n=3, cutoff=0.5)
    hint = f"did you mean {', '.join(near)}?" if near else "expected final, pre-norm, all, a number"
    raise InputError(f"no layer {name!r} in this model; {hint} (`repalign models show` lists them)")


Forward = Callable[[nn.Module, Mapping[str, Tensor]], Tensor | None]


@dataclass(frozen=True)
class SoundInput:
    """What a model of sounds takes.

    Attributes:
        key: The name of the argument.
        shape: Of one prepared sound: one axis is a wave of any length, two are features of a
            window of fixed length.
        states: From the length of a prepared sound to the number of its states.
        needs_equal_lengths: Only sounds of one length may share a batch: padding changes them.
    """

    key: str
    shape: tuple[int, ...]
    states: Callable[[int], int]
    needs_equal_lengths: bool = False


@dataclass(frozen=True)
class Origin:
    """Where the weights came from; holds no absolute path and no user name."""

    model: str
    loader: str
    class_name: str
    files: dict[str, str] = field(default_factory=dict)
    revision: str | None = None
    commit: str | None = None
    licence: str | None = None

    def as_dict(self) -> dict[str, object]:
        """Return the origin as plain values for a store's spec."""
        return {
            "id": self.model,
            "loader": self.loader,
            "class": self.class_name,
            "revision": self.revision,
            "commit": self.commit,
            "file_sha256": dict(sorted(self.files.items())),
        }


@dataclass(frozen=True, kw_only=True, eq=False)
class Encoder:
    """A module in eval mode with the rules for running it.

    Attributes:
        module: The module, in float32 unless it is the user's own.
        origin: Where its weights came from.
        family: What it takes, and which poolings mean something.
        layers: Which of its tensors are which.
        forward: Runs one forward pass; returns the final state where no module's output is that.
        needs_mask: Real tokens of a text would see padding on their right without a mask.
        prefix_tokens: Tokens in front of the patches (the class token and its like).
        channels_last: Maps whose layout their sides do not tell have their channels last.
        sound: What a model of sounds takes.
        image_size: Channels, height and width of the images that it was made for.
        max_length: Most tokens of a text.
        vocabulary_rows: Token ids that it embeds.
        pad_id: The token id that its config names for padding.
        directory: Where further files are (tokenizer, feature extractor).
        image_inputs: Makes the preparation of images that belongs to it.
    """

    module: nn.Module
    origin: Origin
    family: Family
    layers: LayerMap
    forward: Forward
    needs_mask: bool = False
    prefix_tokens: int = 0
    channels_last: bool = False
    sound: SoundInput | None = None
    image_size: tuple[int, int, int] | None = None
    max_length: int | None = None
    vocabulary_rows: int | None = None
    pad_id: int | None = None
    directory: Path | None = None
    image_inputs: "Callable[[ImageBackend], StackedImages] | None" = None
