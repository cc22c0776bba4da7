"""The last step of writing: all shards are there, now make the store complete."""

from pathlib import Path

from repalign.exceptions import InputError, StoreError
from repalign.store.format.directory import remove_directory, remove_leftovers, write_manifest
from repalign.store.format.shard import committed_numbers, shard_name
from repalign.store.reading.store import Store
from repalign.store.writing.packing import OnProgress, pack_opened


def complete_store(
    directory: Path, target: Path, n_shards: int | None, on_progress: OnProgress | None = None
) -> None:
    """Pack the shards, or write the manifest of a store that stays a directory.

    Args:
        directory: where the shards are.
        target: the store; the directory itself if it is not to be packed.
        n_shards: planned number of shards, if there is a plan.
        on_progress: called with the blocks packed and their total.

    Raises:
        InputError: there are no rows.
        StoreError: shards are missing, too many or damaged, or the disk is full.
    """
    check_all_there(directory, n_shards)
    remove_leftovers(directory)  # nobody writes any more, and a killed packing leaves a large file
    with Store(directory, allow_incomplete=True) as store:
        if target != directory:
            pack_opened(store, target, on_progress, scratch=directory)
        else:
            shards, fingerprint = store.rows.shards, store.fingerprint
            write_manifest(directory, store.description, store.index_layout, shards, fingerprint)
    if target != directory:
        remove_directory(directory)


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
