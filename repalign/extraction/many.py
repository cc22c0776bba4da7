"""Many checkpoints in one run: a list of models, and a store for each."""

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from repalign.exceptions import InputError
from repalign.extraction.settings import ExtractProgress, ExtractResult, ExtractSettings
from repalign.files import STDOUT, open_regular

if TYPE_CHECKING:
    from repalign.extraction.run import OnExtract

ENDING = ".h5"
_NAMED = re.compile(r"([A-Za-z0-9_.-]+)=(.+)")
_LONGEST_LIST = 2**24


@dataclass(frozen=True)
class NamedModel:
    """A line of a list of models: the model, and the name of its store."""

    name: str
    model: str


def read_models(path: Path) -> list[NamedModel]:
    """Return the models of a list: one a line, as ``MODEL`` or ``NAME=MODEL``.

    Empty lines and lines that begin with # are passed over. Without a name a store is called
    after its model, with dashes for what no file name should hold.

    Raises:
        InputError: It is no text of reasonable size, there are none, or two stores would have one
            name.
    """
    with open_regular(path) as file:
        content = file.read(_LONGEST_LIST + 1)
    if len(content) > _LONGEST_LIST:
        raise InputError(f"{path}: holds more than {_LONGEST_LIST >> 20} MiB, expected a list")
    try:
        lines = [line.strip() for line in content.decode("utf-8-sig").splitlines()]
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: is not UTF-8 text; expected one model a line") from error
    models = [_named(line) for line in lines if line and not line.startswith("#")]
    if not models:
        raise InputError(f"{path}: holds no models; expected one a line, MODEL or NAME=MODEL")
    counts = Counter(model.name for model in models)
    for model in models:
        if counts[model.name] > 1:
            raise InputError(
                f"{path}: two stores would be called {model.name}{ENDING}; name them, as "
                f"NAME={model.model}"
            )
    return models


def _named(line: str) -> NamedModel:
    match = _NAMED.fullmatch(line)
    if match is not None:
        return NamedModel(match[1], match[2])
    return NamedModel(re.sub(r"[^A-Za-z0-9_.]+", "-", line).strip("-.") or "model", line)


def settings_of_list(
    models: Sequence[NamedModel], folder: Path, settings: ExtractSettings
) -> list[ExtractSettings]:
    """Return the settings of every extraction, with its model and store.

    Raises:
        InputError: The folder is a file.
    """
    if folder == STDOUT or (folder.exists() and not folder.is_dir()):
        raise InputError(f"{folder}: not a folder; expected one for the stores of --models")
    return [
        replace(settings, model=model.model, output=folder / f"{model.name}{ENDING}")
        for model in models
    ]


def extract_in_turn(
    extractions: Sequence[ExtractSettings], on_progress: "OnExtract | None" = None
) -> list[ExtractResult | Exception]:
    """Extract one store after the other; no failure stops the next."""
    from repalign.extraction.run import extract

    results: list[ExtractResult | Exception] = []
    for number, settings in enumerate(extractions):
        try:
            results.append(extract(settings, _of_many(on_progress, number, len(extractions))))
        except Exception as failure:  # noqa: BLE001 - whatever one model brings, others go on
            results.append(failure)
    return results


def _of_many(
    on_progress: "OnExtract | None", number: int, total: int
) -> Callable[[ExtractProgress], None] | None:
    if on_progress is None:
        return None
    return lambda progress: on_progress(replace(progress, stores=(number, total)))
