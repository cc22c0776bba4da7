"""Header of a store file: views, index columns, spec, environment, licence, digests.

It is one JSON text that describes and seals everything in the file.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, get_args

from repalign.exceptions import InputError, StoreError
from repalign.store.digests import canonical_json, fingerprint_of, sha256_of
from repalign.store.format import (
    FORMAT_VERSION,
    INDEX_COLUMNS,
    MAX_DESCRIPTION,
    MAX_DIM,
    MAX_VIEWS,
    VIEW_NAME,
    Column,
    StoredDtype,
    index_column,
    view_column,
)
from repalign.store.index import MAX_ID_BYTES

_SHA256 = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True)
class ViewInfo:
    """One representation of the rows: a layer, a pooling.

    Args:
        name: 1 to 64 of the characters ``A-Z a-z 0-9 _ . -``.
        dim: number of columns.
        dtype: float16, float32 or float64.
    """

    name: str
    dim: int
    dtype: StoredDtype = "float32"

    def __post_init__(self) -> None:
        if not VIEW_NAME.fullmatch(self.name) or self.name in {".", ".."}:
            raise InputError(
                f"view name {self.name!r}: use 1 to 64 letters, digits, underscores, dots, dashes"
            )
        if not 1 <= self.dim <= MAX_DIM:
            raise InputError(f"view {self.name}: dim is {self.dim}; allowed are 1 to {MAX_DIM}")
        if self.dtype not in get_args(StoredDtype):
            raise InputError(
                f"view {self.name}: dtype is {self.dtype}; use {', '.join(get_args(StoredDtype))}"
            )

    @property
    def column(self) -> Column:
        """The dataset that holds it."""
        return view_column(self.name, self.dim, self.dtype)


@dataclass(frozen=True)
class Description:
    """Origin of the rows, the same for all shards of a store.

    Args:
        views: the representations, sorted by name.
        spec: everything that determines the values (JSON).
        environment: versions and machine class (JSON); does not determine the values.
        licence: note on the terms of use, or None.
    """

    views: tuple[ViewInfo, ...]
    spec: Mapping[str, Any]
    environment: Mapping[str, Any] = field(default_factory=dict)
    licence: str | None = None

    def __post_init__(self) -> None:
        names = [view.name for view in self.views]
        if not names or len(names) > MAX_VIEWS or len(set(names)) < len(names):
            raise InputError(
                f"a store has 1 to {MAX_VIEWS} views with different names; got {len(names)}"
            )
        object.__setattr__(self, "views", tuple(sorted(self.views, key=lambda v: v.name)))
        text = canonical_json([self.spec, self.environment, self.licence])
        if len(text) > MAX_DESCRIPTION:
            raise InputError(
                f"spec, environment and licence take {len(text)} characters, at most "
                f"{MAX_DESCRIPTION} are allowed; store a hash of long lists instead"
            )
        # as it comes back from a file: tuples are lists, keys are text
        spec, environment, _ = json.loads(text)
        object.__setattr__(self, "spec", spec)
        object.__setattr__(self, "environment", environment)

    @cached_property
    def spec_sha256(self) -> str:
        """The sha256 of the canonical JSON of the spec."""
        return sha256_of(canonical_json(self.spec))

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return {
            "views": {view.name: {"dim": view.dim, "dtype": view.dtype} for view in self.views},
            "spec": dict(self.spec),
            "spec_sha256": self.spec_sha256,
            "environment": dict(self.environment),
            "licence": self.licence,
        }


@dataclass(frozen=True)
class IndexLayout:
    """Which columns the row index has.

    Args:
        columns: names, in the order of the schema.
        id_bytes: width of the identifiers; 0 without them.
    """

    columns: tuple[str, ...]
    id_bytes: int = 0

    def datasets(self) -> tuple[Column, ...]:
        """Return the datasets that hold them."""
        return tuple(index_column(name, self.id_bytes) for name in self.columns)


def check_version(version: int, where: str) -> None:
    """Refuse other versions of the format.

    Raises:
        StoreError: it is another one.
    """
    if version != FORMAT_VERSION:
        advice = (
            "update your installation"
            if version > FORMAT_VERSION
            else "remove it, and extract or import the embeddings again"
        )
        raise StoreError(
            f"{where}: format_version is {version}, this installation reads version "
            f"{FORMAT_VERSION}; {advice}"
        )


def parse_json(text: bytes, where: str) -> dict[str, Any]:
    """Parse a JSON object that comes from a file.

    Raises:
        StoreError: text that is not a JSON object of finite numbers.
    """
    try:
        content = json.loads(text)
        canonical_json(content)  # Python takes NaN and 1e999 for numbers
    except (ValueError, RecursionError, InputError) as error:
        raise StoreError(f"{where}: not JSON ({error}); the file is damaged") from error
    if not isinstance(content, dict):
        raise StoreError(f"{where}: not a JSON object; the file is damaged")
    return content


def take(content: Mapping[str, Any], key: str, kind: type | tuple[type, ...], where: str) -> Any:
    """Return a value of parsed JSON after checking its type.

    Raises:
        StoreError: the key is missing or of another type.
    """
    value = content.get(key)
    kinds = kind if isinstance(kind, tuple) else (kind,)
    # a JSON true is an int in Python
    if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
        raise StoreError(f"{where}: key {key!r} is missing or of a wrong type; the file is damaged")
    return value


def take_sha256(content: Mapping[str, Any], key: str, where: str) -> str:
    """Return a sha256 of parsed JSON.

    Raises:
        StoreError: the key is missing or no sha256.
    """
    value: str = take(content, key, str, where)
    if not _SHA256.fullmatch(value):
        raise StoreError(f"{where}: key {key!r} is not a sha256; the file is damaged")
    return value


def parse_description(content: Mapping[str, Any], where: str) -> Description:
    """Return the description that a file declares.

    Raises:
        StoreError: a value that this format does not allow.
    """
    try:
        views = []
        for name, declared in take(content, "views", dict, where).items():
            place = f"{where}: views: {name[:64]!r}"
            if not isinstance(declared, dict):
                raise StoreError(f"{place}: not a JSON object; the file is damaged")
            dim = take(declared, "dim", int, place)
            views.append(ViewInfo(name, dim, take(declared, "dtype", str, place)))
        description = Description(
            tuple(views),
            spec=take(content, "spec", dict, where),
            environment=take(content, "environment", dict, where),
            licence=take(content, "licence", (str, type(None)), where),
        )
    except InputError as error:
        raise StoreError(f"{where}: {error}") from error
    if take_sha256(content, "spec_sha256", where) != description.spec_sha256:
        raise StoreError(f"{where}: key 'spec' does not match spec_sha256; the file is damaged")
    return description


def parse_index_layout(content: Mapping[str, Any], where: str) -> IndexLayout:
    """Return the index columns that a file declares.

    Raises:
        StoreError: columns that this format does not allow.
    """
    columns = tuple(take(content, "index", list, where))
    id_bytes = take(content, "id_bytes", int, where)
    allowed = tuple(name for name in INDEX_COLUMNS if name in columns)
    if columns != allowed or allowed[:2] != INDEX_COLUMNS[:2]:
        raise StoreError(f"{where}: index columns {columns}: expected {INDEX_COLUMNS}")
    if not (1 <= id_bytes <= MAX_ID_BYTES if "ids" in columns else id_bytes == 0):
        raise StoreError(f"{where}: key 'id_bytes' is {id_bytes}; the file is damaged")
    return IndexLayout(columns, id_bytes)


@dataclass(frozen=True)
class Header:
    """Everything about one file but its values.

    Args:
        description: how the rows were made.
        index: columns of the row index.
        n_rows: number of rows, at least one.
        shard: number of the shard; None for a packed store.
        roots: sha256 of the leaf digests of every column, by its path.
    """

    description: Description
    index: IndexLayout
    n_rows: int
    shard: int | None
    roots: Mapping[str, str]

    @cached_property
    def columns(self) -> tuple[Column, ...]:
        """All datasets of rows: the index, then the views."""
        return columns_of(self.description, self.index)

    @cached_property
    def fingerprint(self) -> str:
        """Hash that identifies the content."""
        return fingerprint_of(self.n_rows, self.columns, self.roots)

    def to_text(self) -> str:
        """Return it as canonical JSON."""
        return canonical_json(
            self.description.to_json()
            | {
                "n_rows": self.n_rows,
                "index": list(self.index.columns),
                "id_bytes": self.index.id_bytes,
                "shard": self.shard,
                "digests": dict(self.roots),
                "fingerprint": self.fingerprint,
            }
        )


def columns_of(description: Description, index: IndexLayout) -> tuple[Column, ...]:
    """Return all datasets of rows of a store: the index, then the views."""
    return (*index.datasets(), *(view.column for view in description.views))


def parse_header(content: Mapping[str, Any], where: str) -> Header:
    """Return the header that a file declares.

    Raises:
        StoreError: a value that this format does not allow.
    """
    description = parse_description(content, where)
    index = parse_index_layout(content, where)
    n_rows = take(content, "n_rows", int, where)
    shard = take(content, "shard", (int, type(None)), where)
    if n_rows < 1 or (shard is not None and shard < 0):
        raise StoreError(f"{where}: key 'n_rows' is {n_rows} in shard {shard}; expected 1 or more")
    declared = take(content, "digests", dict, where)
    roots = {
        column.path: take_sha256(declared, column.path, f"{where}: digests")
        for column in columns_of(description, index)
    }
    if declared.keys() != roots.keys():
        raise StoreError(f"{where}: key 'digests' names unknown columns; the file is damaged")
    header = Header(description, index, n_rows, shard, roots)
    if take_sha256(content, "fingerprint", where) != header.fingerprint:
        raise StoreError(f"{where}: key 'fingerprint' is not that of the digests; file is damaged")
    return header
