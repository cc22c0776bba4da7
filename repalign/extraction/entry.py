"""The public entry point of extraction, of named models and of modules."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

from repalign.arguments import checked, is_a
from repalign.exceptions import InputError
from repalign.extraction.settings import ExtractResult, ExtractSettings

if TYPE_CHECKING:
    from torch import nn

    from repalign.extraction.run import OnExtract


@overload
def extract(
    source: ExtractSettings, *, on_progress: "OnExtract | None" = None
) -> ExtractResult: ...


@overload
def extract(
    source: "nn.Module",
    data: Iterable[Any],
    *,
    output: Path | str,
    ids: Sequence[str] | None = None,
    **options: Any,
) -> ExtractResult: ...


@checked
def extract(
    source: "ExtractSettings | nn.Module",
    data: Iterable[Any] | None = None,
    *,
    output: Path | str | None = None,
    ids: Sequence[str] | None = None,
    on_progress: "OnExtract | None" = None,
    **options: Any,
) -> ExtractResult:
    """Extract embeddings into a store; the same call resumes an earlier one.

    Args:
        source: ``ExtractSettings`` of a model that has a name, or any ``torch.nn.Module``.
        data: For a module: a loader, a data set, or an iterable of batches (tensors, tuples
            that begin with one, dictionaries of keywords), the same at every call.
        output: For a module: the store, a file ending in .h5 or a directory.
        ids: For a module: an id for each sample.
        on_progress: For settings: called with how far it is.
        options: For a module: ``layers``, ``pools``, ``batch_size``, ``device``,
            ``code_version``, ``overwrite``.

    Raises:
        InputError: Something cannot be used.
        ModelError: The model cannot be used, or a layer's rows are not the sample's own.
        StoreError: An unfinished store was begun with other settings.

    Example:
        >>> import torch, repalign
        >>> hidden, head = torch.nn.Linear(4, 8), torch.nn.Linear(8, 3)
        >>> network = torch.nn.Sequential(hidden, torch.nn.ReLU(), head)
        >>> batches = torch.randn(30, 4).split(10)
        >>> result = repalign.extract(network, batches, output="run-of-mine.h5")
        >>> result.n_rows, result.views
        (30, {'final': 3})
    """
    if isinstance(source, ExtractSettings):
        from repalign.extraction.run import extract as run

        if data is not None or output is not None or ids is not None or options:
            raise InputError("settings say everything; give them alone, or a module with its data")
        return run(source, on_progress)
    if not is_a(source, "torch.nn", "Module"):
        raise InputError(
            f"source: got {type(source).__name__}, expected ExtractSettings (of a model that has a "
            "name) or a torch.nn.Module"
        )
    from repalign.extraction.module import ModuleSettings, extract_module

    if data is None or output is None:
        raise InputError("a module needs data and output: extract(module, batches, output='a.h5')")
    if not isinstance(data, Iterable) and not hasattr(data, "__getitem__"):
        raise InputError(f"data: got {type(data).__name__}, expected a loader or a list of batches")
    names = set(ModuleSettings.__dataclass_fields__)
    unknown = sorted(set(options) - names)
    if unknown:
        raise InputError(f"no option {unknown[0]!r}; expected {', '.join(sorted(names))}")
    for name in ("layers", "pools"):
        if isinstance(options.get(name), list):
            options[name] = tuple(options[name])
    return extract_module(source, data, Path(output), ids, ModuleSettings(**options))
