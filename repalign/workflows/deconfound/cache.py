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
Entry = Mapping[str, Any]


class FoldCache:
    """Results by key; every new one is on the disk before ``put`` returns.

    Without a path nothing is kept beyond the run. A last line that was cut off by a kill is
    dropped. Keys hold everything that a result depends on, so that one file serves many runs.

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
            line = json.dumps({"format": FORMAT, "key": key, "entry": dict(entry)}) + "\n"
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


def _read(path: Path) -> dict[str, Entry]:
    entries: dict[str, Entry] = {}
    with open_regular(path) as file:
        lines = file.read().decode(errors="replace").split("\n")
    for number, line in enumerate(lines):
        if not line:
            continue
        try:
            record = json.loads(line)
            is_ours = record["format"] == FORMAT
            entries[record["key"]] = record["entry"]
        except (json.JSONDecodeError, KeyError, TypeError) as error:
            # Only a kill in the middle of a write leaves a line that is no JSON.
            if number > 0 and isinstance(error, json.JSONDecodeError):
                continue
            raise InputError(
                f"{path}: line {number + 1} is no finished fold; give a file that "
                "--resume wrote, or a new name"
            ) from error
        if not is_ours:
            raise InputError(f"{path}: is of the format {record['format']}; expected {FORMAT}")
    return entries


def _ends_with_newline(path: Path) -> bool:
    with open_regular(path) as file:
        file.seek(-1, os.SEEK_END)
        return file.read(1) == b"\n"
