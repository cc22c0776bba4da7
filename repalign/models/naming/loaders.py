"""The list of loaders: everything that says how a kind of model is named, and where its code is.

A new library is one entry here and the module that the entry names; the forms of names in help
and messages, loading, preprocessing and the recorded versions follow from it.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

from repalign.exceptions import InputError
from repalign.models.naming.spec import (
    LOCAL,
    OWN_CODE,
    ModelSpec,
    existing_path,
    is_function,
    parse_architecture,
    parse_file,
    parse_function,
    parse_repository,
)


@dataclass(frozen=True)
class LoaderEntry:
    """One loader.

    Attributes:
        name: What stands before the colon in a model's name.
        form: The whole name, for people; empty where it is told by what a directory holds.
        parse: From the name and what follows the colon to a spec.
        module: Module whose ``LOADER`` is a ``Loader``; imported when it is used.
        packages: Distributions whose versions a store records.
        recorded: What a store calls it; by default its name.
        in_hub: The name is that of a repository of the hub, which may hold any format.
        runs_code: Loading runs the user's own code, and only when that is allowed.
    """

    name: str
    form: str
    parse: Callable[[str, str], ModelSpec]
    module: str
    packages: tuple[str, ...]
    recorded: str = ""
    in_hub: bool = False
    runs_code: bool = False


_ROOM = "repalign.models.loaders"
# A directory or file on this disk is offered to the loaders in this order.
LOADERS: dict[str, LoaderEntry] = {
    entry.name: entry
    for entry in (
        LoaderEntry(
            "timm",
            "timm:name[@weights-file]",
            parse_architecture,
            f"{_ROOM}.timm",
            ("timm",),
        ),
        LoaderEntry(
            "torchvision",
            "torchvision:name[@weights-file]",
            parse_architecture,
            f"{_ROOM}.torchvision",
            ("torchvision",),
        ),
        LoaderEntry(
            "sentence",
            "",
            parse_file,
            "repalign.models.composed.sentence",
            ("transformers", "tokenizers"),
            recorded="sentence-transformers",
        ),
        LoaderEntry("open_clip", "", parse_file, "repalign.models.composed.open_clip", ("timm",)),
        LoaderEntry("mae", "mae:file.pth", parse_file, f"{_ROOM}.mae", ("timm",)),
        LoaderEntry(
            "hf",
            "hf:org/name[@revision]",
            parse_repository,
            f"{_ROOM}.transformers",
            ("transformers", "tokenizers"),
            recorded="transformers",
            in_hub=True,
        ),
        LoaderEntry(
            OWN_CODE,
            "path/to/file.py:function",
            parse_function,
            f"{_ROOM}.own",
            (),
            recorded="own code",
            runs_code=True,
        ),
    )
}

FORMS = ", ".join(
    [
        *(entry.form for entry in LOADERS.values() if entry.form),
        "a directory, a file, a preset, or a name of `repalign zoo list`; with ::text or ::vision "
        "where it holds two encoders",
    ]
)


def parse_model(text: str) -> ModelSpec:
    """Parse the name of a model; a preset's name must have been replaced before.

    Raises InputError when the text has none of the known forms or the path does not exist.
    """
    name, _, part = text.partition("::")
    if is_function(name):
        return replace(parse_function(OWN_CODE, name), part=part or None)
    prefix, colon, rest = name.partition(":")
    if colon and prefix in LOADERS and LOADERS[prefix].form and rest:
        return replace(LOADERS[prefix].parse(prefix, rest), part=part or None)
    path = existing_path(name)
    if path is not None:
        return ModelSpec(LOCAL, "", path=path, part=part or None)
    raise InputError(f"unknown model {text!r}; expected {FORMS} (`repalign models` lists presets)")


def recorded_packages() -> tuple[str, ...]:
    """Return the distributions whose versions may explain small differences."""
    packages = ["torch", "pillow", *(p for entry in LOADERS.values() for p in entry.packages)]
    return tuple(dict.fromkeys(packages))
