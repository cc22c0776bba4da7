"""The directory in which a store is written: begun or taken over, locked, made complete."""

import fcntl
import os
import weakref
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from repalign.exceptions import InputError, StoreError
from repalign.files import STDOUT, check_no_input
from repalign.store.digests import canonical_json
from repalign.store.directory import (
    begin_directory,
    committed_numbers,
    file_identity,
    is_finished,
    is_unused,
    parts_directory,
    read_directory,
    remove_directory,
    remove_leftovers,
    shard_name,
    write_manifest,
)
from repalign.store.format import DESCRIPTION, MANIFEST
from repalign.store.header import Description
from repalign.store.reader import Store, check_file
from repalign.store.writing.files import OnProgress, check_target, pack_opened
from repalign.store.writing.options import WriteOptions

_SHOWN = 5


@dataclass(frozen=True)
class ResumeState:
    """What was there when a writer began.

    Args:
        numbers: the committed shards.
        n_rows: rows that a reader would find.
        is_complete: whether nothing is left to write.
    """

    numbers: frozenset[int] = frozenset()
    n_rows: int = 0
    is_complete: bool = False


class ShardDirectory:
    """Where the shards of a store lie while it is written.

    One writer has it alone, or as many as ``options.n_writers`` says share it: the system
    releases their lock when they end, however they do.

    Args:
        target: the store.
        description: how the rows are made.
        options: plan of the shards and of the writers.

    Raises:
        InputError: the store would be standard output.
    """

    def __init__(self, target: Path, description: Description, options: WriteOptions) -> None:
        if target == STDOUT:
            raise InputError("-: is standard output, into which no store goes; choose a path")
        self.target = target
        self.path = parts_directory(target)
        self.is_packed = self.path != target
        self._description = description
        self._options = options
        self._unlock: Callable[[], object] | None = None

    def begin(self, *, overwrite: bool, restart: bool = False) -> None:
        """Make room for a new store.

        Args:
            overwrite: whether what is there may be replaced.
            restart: whether that holds for an unfinished store of the same settings.

        Raises:
            InputError: something is there and is not to be replaced.
            StoreError: another process writes it.
        """
        if self.path.is_dir():
            self._take_lock()
        if restart and not overwrite:
            self._remove_unfinished()
        if self.is_packed:
            check_target(self.target, overwrite=overwrite)
        is_free = restart and self.path.is_dir() and is_unused(self.path)
        if self.path.exists() and not is_free:
            if not overwrite:
                raise InputError(f"{self.path}: {self._explain_existing(restart=restart)}")
            if not self.path.is_dir():
                raise InputError(f"{self.path}: exists and is not a store; choose another path")
            check_no_input(self.path)
            remove_directory(self.path)
        self._begin()

    def _remove_unfinished(self) -> None:
        """Remove what a killed writer of the same store left; nothing else is touched."""
        if not (self.path / DESCRIPTION).is_file() or (self.path / MANIFEST).exists():
            return
        with suppress(StoreError):  # damaged or of other settings: it stays
            check_same_settings(read_directory(self.path).description, self._description, self.path)
            remove_directory(self.path)

    def _explain_existing(self, *, restart: bool) -> str:
        if not (self.path / DESCRIPTION).is_file() or (self.path / MANIFEST).exists():
            return "is there already; choose another path, or allow overwriting"
        if restart:
            return "is an unfinished store of other settings; remove it, or allow overwriting"
        return "is an unfinished store; continue it (resume=True), or allow overwriting"

    def resume(self) -> ResumeState:
        """Continue what is there, after checking that it is the same store, or begin it.

        Raises:
            InputError: something else is there.
            StoreError: it is damaged, was made with other settings, or another process writes it.
        """
        if self.path.is_dir():
            self._take_lock()
        has_shards = (self.path / DESCRIPTION).exists()
        content = read_directory(self.path) if has_shards else None
        identity = file_identity(self.target) if self.is_packed else None
        if identity and (content is None or content.replaces != identity):
            # The packed file is the result. Shards beside it are a rest, unless the file was
            # there before them and is being replaced.
            with Store(self.target) as store:
                check_same_settings(store.description, self._description, self.target)
                n_rows = len(store)
            if self.path.exists():
                remove_directory(self.path)
            self.release()
            return ResumeState(n_rows=n_rows, is_complete=True)
        if content is None:
            if self.path.exists() and not (self.path.is_dir() and is_unused(self.path)):
                if (self.path / DESCRIPTION).exists():
                    return self.resume()  # another writer has begun the store meanwhile
                raise InputError(f"{self.path}: exists and is not a store; choose another path")
            self._begin()
            return ResumeState()
        check_same_settings(content.description, self._description, self.path)
        if content.shards:
            with Store(self.path, allow_incomplete=True) as store:
                for number in range(store.n_files):
                    check_file(store, number, "quick")
        return ResumeState(
            numbers=frozenset(committed_numbers(self.path)),
            n_rows=sum(shard.n_rows for shard in content.shards),
            is_complete=content.fingerprint is not None,
        )

    def complete(self, on_progress: OnProgress | None = None) -> None:
        """Pack the shards, or write the manifest of a store that stays a directory.

        Raises:
            InputError: there are no rows.
            StoreError: shards are missing, too many or damaged, or the disk is full.
        """
        check_all_there(self.path, self._options.n_shards)
        # nobody writes any more, and a killed packing leaves a large file
        remove_leftovers(self.path)
        with Store(self.path, allow_incomplete=True) as store:
            if self.is_packed:
                pack_opened(store, self.target, on_progress, scratch=self.path)
            else:
                shards, fingerprint = store.shards, store.fingerprint
                layout = store.index_layout
                write_manifest(self.path, store.description, layout, shards, fingerprint)
        if self.is_packed:
            remove_directory(self.path)

    def complete_when_whole(self, on_progress: OnProgress | None = None) -> bool:
        """Complete the store if all planned shards are there; return whether it is complete.

        Of several writers that come here one completes it and the others wait.
        """
        try:
            handle = os.open(self.path / DESCRIPTION, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return is_finished(self.target) or self.target.is_file()  # another removes the rest
        try:
            # not the lock of the directory, which others may hold that only have to close
            with suppress(OSError):  # a file system without locks
                fcntl.flock(handle, fcntl.LOCK_EX)
            if is_finished(self.target):
                return True
            if committed_numbers(self.path) != list(range(self._options.n_shards or 0)):
                return False
            self.complete(on_progress)
            return True
        finally:
            os.close(handle)

    def remove_if_empty(self) -> None:
        """Remove the directory if no shard is in it and no other process writes any."""
        is_alone = self._unlock is not None and self._options.n_writers == 1
        if is_alone and self.path.is_dir() and not committed_numbers(self.path):
            remove_directory(self.path)

    def release(self) -> None:
        """Let other writers have the directory."""
        if self._unlock is not None:
            self._unlock()
            self._unlock = None

    def _begin(self) -> None:
        """Write the description; a file that is to be replaced is remembered."""
        replaces = file_identity(self.target) if self.is_packed else None
        self.path.mkdir(parents=True, exist_ok=True)
        self._take_lock()
        if not (self.path / DESCRIPTION).exists():
            begin_directory(self.path, self._description, self._options.n_shards, replaces)

    def _take_lock(self) -> None:
        """Lock the directory, alone where one writer is planned, else shared.

        Raises:
            StoreError: another process has it.
        """
        self.release()
        handle = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        self._unlock = weakref.finalize(self, os.close, handle)
        how = fcntl.LOCK_EX if self._options.n_writers == 1 else fcntl.LOCK_SH
        try:
            fcntl.flock(handle, how | fcntl.LOCK_NB)
        except BlockingIOError as error:
            self.release()
            raise StoreError(
                f"{self.path}: another process is writing this store; wait for it, or write to "
                "another path"
            ) from error
        except OSError:
            pass  # a file system without locks


def check_all_there(directory: Path, n_shards: int | None) -> None:
    """Check that shards 0 to the last are present and no others.

    Raises:
        InputError: there are none.
        StoreError: one is missing, or beyond the plan.
    """
    numbers = committed_numbers(directory)
    if not numbers:
        raise InputError(f"{directory}: no rows were written; a store has at least one")
    expected = range(n_shards or numbers[-1] + 1)
    missing = sorted(set(expected) - set(numbers))
    if missing:
        raise StoreError(
            f"{directory}: {len(missing)} of {len(expected)} shards are missing, the first is "
            f"{shard_name(missing[0])}; write them, then finish"
        )
    if numbers[-1] >= len(expected):
        raise StoreError(
            f"{directory}: {shard_name(numbers[-1])} is beyond the {len(expected)} planned shards; "
            "it belongs to another run"
        )


def check_same_settings(there: Description, expected: Description, where: Path) -> None:
    """Refuse to continue a store that was made in another way, and say in which.

    Raises:
        StoreError: spec or views differ; the message names the keys.
    """
    old, new = there.to_json(), expected.to_json()
    changed = changed_keys(
        {"spec": old["spec"], "views": old["views"]},
        {"spec": new["spec"], "views": new["views"]},
    )
    if changed:
        more = f" and {len(changed) - _SHOWN} more" if len(changed) > _SHOWN else ""
        raise StoreError(
            f"{where}: was written with other settings: {'; '.join(changed[:_SHOWN])}{more}; use "
            "the same, write to another path, or allow overwriting"
        )


def changed_keys(old: Any, new: Any, prefix: str = "") -> list[str]:
    """Return what differs between two JSON values, as ``key: old → new`` with dotted keys."""
    if isinstance(old, dict) and isinstance(new, dict):
        changes = []
        for key in sorted(old.keys() | new.keys()):
            changes += changed_keys(
                old.get(key, "(absent)"), new.get(key, "(absent)"), f"{prefix}.{key}".lstrip(".")
            )
        return changes
    if old == new and type(old) is type(new):
        return []
    return [f"{prefix}: {_short(old)} → {_short(new)}"]


def _short(value: Any) -> str:
    """Return a value for a message, cut to 60 characters."""
    text = value if value == "(absent)" else canonical_json(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
