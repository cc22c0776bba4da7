"""Variables of the environment that processes started in a block inherit."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

# Python puts no folder of its own choice first on the path of a child: the current folder may hold
# files of anybody, and a child started by ``-c`` would import them.
SAFE_PATH: Mapping[str, str | None] = {"PYTHONSAFEPATH": "1"}


@contextmanager
def environment(values: Mapping[str, str | None]) -> Iterator[None]:
    """Set variables while the block runs; None removes one."""
    before = {name: os.environ.get(name) for name in values}
    _set(values)
    try:
        yield
    finally:
        _set(before)


def _set(values: Mapping[str, str | None]) -> None:
    for name, value in values.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value
