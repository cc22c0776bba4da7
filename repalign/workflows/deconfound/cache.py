"""Finished folds in a file of lines, so that a run that was stopped goes on where it was."""

import hashlib
import json
import os
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from repalign.exceptions import InputError
from repalign.files import check_output, open_regular

FORMAT = "repalign-folds"
_START = f'{{"format": "{FORMAT}", '
Entry = Mapping[str, Any]


class FoldCache:
    """Results by key; every new one is on the disk before ``put`` returns.

    Without a path nothing is kept beyond the run. A last line that was cut off by a kill is
    dropped. Keys hold everything that a result depends on, so that one file serves many runs.
    Every line has a checksum: a result that was changed is refused, never taken for a measured one.

    Raises:
        InputError: the file is none of finished folds, is an input, or cannot be written.
    """

    def __init__(self, path: str | Path | None = None) -> None:
        self._path = None if path is None else Path(path)
        self._entries: dict[str, Entry] = {}
        self._lock = threading.Lock()
        if self._path is not None:
            if self._path.exists():
                self._entries = _read(self._path)
            check_output(self._path)  # before the work rather than after the first fold

    def get(self, key: str) -> Entry | None:
        """Return the result of this key, or None."""
        return self._entries.get(key)

    def put(self, key: str, entry: Entry) -> None:
        """Keep a result."""
        with self._lock:
            self._entries[key] = entry
            if self._path is None:
                return
            line = json.dumps(_sealed(key, dict(entry))) + "\n"
            with self._path.open("ab") as file:
                if file.tell() and not _ends_with_newline(self._path):
                    file.write(b"\n")
                file.write(line.encode())
                file.flush()
                os.fsync(file.fileno())


def key_of(parts: Mapping[str, Any]) -> str:
    """Return a key for everything that a result depends on (JSON values)."""
    text = json.dumps(dict(parts), sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()


def _sealed(key: str, entry: Any) -> dict[str, Any]:
    text = json.dumps([key, entry], sort_keys=True)
    digest = hashlib.sha256(text.encode()).hexdigest()
    return {"format": FORMAT, "key": key, "entry": entry, "sha256": digest}


def _read(path: Path) -> dict[str, Entry]:
    entries: dict[str, Entry] = {}
    with open_regular(path) as file:
        lines = file.read().decode(errors="replace").split("\n")
    for number, line in enumerate(lines):
        if not line:
            continue
        try:
            record = json.loads(line)
        except (ValueError, RecursionError) as error:
            # Only a kill in the middle of a write leaves a line that is no JSON.
            if number > 0 or _START.startswith(line[: len(_START)]):
                continue
            raise InputError(_no_fold(path, number, "")) from error
        if not isinstance(record, dict) or not {"format", "key", "entry"} <= record.keys():
            raise InputError(_no_fold(path, number, ""))
        if record["format"] != FORMAT:
            found = str(record["format"])[:40]
            raise InputError(f"{path}: is of the format {found}; expected {FORMAT}")
        key, entry = record["key"], record["entry"]
        is_fold = isinstance(key, str) and isinstance(entry, dict)
        if not is_fold or record != _sealed(key, entry):
            raise InputError(_no_fold(path, number, ", it does not match its sha256"))
        entries[key] = entry
    return entries


def _no_fold(path: Path, number: int, why: str) -> str:
    return (
        f"{path}: line {number + 1} is no finished fold{why}; give a file that --resume wrote, a "
        "new name, or delete that line"
    )


def _ends_with_newline(path: Path) -> bool:
    with open_regular(path) as file:
        file.seek(-1, os.SEEK_END)
        return file.read(1) == b"\n"
