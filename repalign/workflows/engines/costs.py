"""What a comparison or an extraction will cost before it runs: work, bytes and memory.

Everything follows from sizes: how many views or samples, how long, how wide, how many workers and
how much memory each may use. Nothing is computed and no row is read.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from repalign.core.inference.splits import N_BUNDLES
from repalign.printable import byte_size
from repalign.workflows.compare.nulls import COPIES, MAX_NULL_ROWS
from repalign.workflows.compare.settings import CompareSettings
from repalign.workflows.compare.spaces import N_HALVES, halves_have_ica
from repalign.workflows.engines.effort import (
    Stores,
    expected_seconds,
    n_fits,
    space_starts,
)
from repalign.workflows.engines.parcels import SHARED_BYTES
from repalign.workflows.engines.ray_tasks import LARGEST_TASK, TASKS_EACH
from repalign.workflows.study.tiles import BLOCKS_BYTES

if TYPE_CHECKING:
    from repalign.workflows.extract.job import ExtractJob

MIB = 2**20
# A worker of Ray with what a comparison imports, and with torch, which ICA needs (measured).
WORKER_BYTES, TORCH_BYTES = 235 * MIB, 490 * MIB
# Of the copies that nulls may make, those that are there at one time (measured).
COPIES_SHARE = 0.6
# Passes over both sides of a pair whose rows do not stay in memory, and over a space for its
# diameter, whole and held out (measured with nulls and a held-out share; data move them a little).
PAIR_PASSES, DIAMETER_PASSES = 6, 14
# A row of the index: sample number, token, hash. With a pair who its rows are is sent, their groups
# and parts, with the units of a view parts and which rows judge. Numbers of so many rows that they
# are shared go once: then what hangs on the pair, or the unit, is left.
INDEX_BYTES, PAIR_ROW_BYTES, VIEW_ROW_BYTES = 8 + 4 + 16, 40, 44
PAIR_OWN_BYTES, VIEW_OWN_BYTES, ONCE_BYTES = 24, 12, 16
# What opening a store reads beside its rows: structure, and index and digests of each row.
OPENING_BYTES, OPENING_ROW_BYTES = 4 * 1024, 30


@dataclass(frozen=True)
class Cost:
    """One line of a plan.

    Attributes:
        quantity: What is counted.
        amount: How much, as a whole number.
        unit: Of it: bytes, or empty for a count.
        rule: How it follows from the sizes.
    """

    quantity: str
    amount: int
    unit: str
    rule: str

    def to_dict(self) -> dict[str, Any]:
        """Return it as a record, with the amount in words."""
        about = byte_size(self.amount) if self.unit == "bytes" else f"{self.amount:,}"
        return {**asdict(self), "about": about}


@dataclass(frozen=True)
class Walk:
    """How the pairs of a comparison are walked, and what rows are read on the way.

    Attributes:
        n_tiles: Tiles of the matrix of pairs.
        side: Views of a side of a tile.
        task: Pairs of a task.
        n_tasks: Tasks of pairs.
        held: Bytes of rows that stay in the memory of a worker.
        n_read: Bytes that all workers read.
        nulls: Bytes that nulls copy.
    """

    n_tiles: int
    side: int
    task: int
    n_tasks: int
    held: int
    n_read: int
    nulls: int


def walk_of(stores: Stores, settings: CompareSettings, workers: int, memory_bytes: int) -> Walk:
    """Return how so many workers walk the pairs."""
    n_views, n_pairs, size = stores.views, stores.n_pairs, stores.view_bytes
    working = COPIES * 8 * 2 * stores.dim * min(stores.rows, MAX_NULL_ROWS)
    room = max(memory_bytes - working - BLOCKS_BYTES, 0) // 2
    side = max(room // (2 * size), 1) if n_views * size > room else n_views
    n_tiles = -(-n_views // side) * (-(-n_views // side) + 1) // 2
    task = min(max(n_pairs // (workers * TASKS_EACH), 1), LARGEST_TASK)
    n_tasks = -(-n_pairs // task)
    opened = n_views * (1 + min(workers, n_tasks))
    n_read = opened * (OPENING_BYTES + OPENING_ROW_BYTES * stores.rows)
    held = min(n_views * size, room) if 2 * size <= room else 0
    if not stays_from_moments(held, n_tiles, settings):
        n_read += n_views * size * (1 + ica_passes(stores, settings))
    if held:
        # A tile is some consecutive tasks, and each of them may be another worker's.
        per_tile = min(workers, -(-max(n_pairs // n_tiles, 1) // task) + (n_tiles > 1))
        n_read += size * (n_views if n_tiles == 1 else n_tiles * 2 * side) * per_tile
    else:
        n_targets = n_views if settings.both_directions else n_views - 1
        n_read += size * (2 * PAIR_PASSES * n_pairs + DIAMETER_PASSES * n_targets)
    nulls = int(COPIES_SHARE * min(working, memory_bytes)) if settings.n_null != 0 else 0
    return Walk(n_tiles, side, task, n_tasks, held, n_read, nulls)


def ica_passes(stores: Stores, settings: CompareSettings) -> int:
    """Return how often a view is read before its pairs: for ICA, and for bundles of its rows."""
    return int(settings.has_ica) + (settings.n_halves != 0)


def stays_from_moments(held: int, n_tiles: int, settings: CompareSettings) -> bool:
    """Whether rows that were read for their moments are there for the pairs too."""
    return bool(held) and n_tiles == 1 and not settings.has_ica


def compare_costs(
    stores: Stores, settings: CompareSettings, *, workers: int, memory_bytes: int
) -> list[Cost]:
    """Return what a comparison by so many workers will take."""
    walk = walk_of(stores, settings, workers, memory_bytes)
    n_views, n_pairs = stores.views, stores.n_pairs
    moments = _moments_bytes(stores, settings)
    process = WORKER_BYTES + (TORCH_BYTES if settings.has_ica else 0)
    memory = process + walk.held + walk.nulls + 4 * moments
    rule = _reading_rule(walk, stores, settings)
    return [
        Cost("views", n_views, "", f"{stores.rows:,} × {stores.dim:,} each"),
        Cost("pairs", n_pairs, "", "units of work; moments, ICA and long shares of a pair before"),
        Cost(
            "tiles",
            walk.n_tiles,
            "",
            f"{walk.side:,} × {walk.side:,} views, whose rows "
            + ("stay in memory" if walk.held else "are read in blocks"),
        ),
        Cost(
            "tasks",
            walk.n_tasks,
            "",
            f"of {walk.task} {'pair' if walk.task == 1 else 'pairs'} each, one after the other",
        ),
        Cost(
            "bytes of all views",
            n_views * stores.view_bytes,
            "bytes",
            "rows × columns × bytes of a value",
        ),
        Cost("bytes read", walk.n_read, "bytes", rule),
        Cost(
            "bytes sent to workers",
            _sent_bytes(stores, moments, walk.n_tasks),
            "bytes",
            "moments (columns² × 8 for each part of the split and bundle), and who the rows are",
        ),
        Cost("memory of a worker", memory, "bytes", "libraries, rows held, nulls, moments"),
        Cost("memory of all workers", workers * memory, "bytes", f"{workers} × that"),
        Cost(
            "memory of the command",
            process + n_views * moments + n_pairs * PAIR_ROW_BYTES * stores.rows,
            "bytes",
            "libraries, the moments of all views, and who the rows of every pair are",
        ),
    ]


def _moments_bytes(stores: Stores, settings: CompareSettings) -> int:
    """Return the bytes of the moments of a view: of the parts of the split, and of bundles."""
    n_parts = settings.n_folds or (2 if settings.held_out else 1)
    if halves_have_ica(stores.rows, stores.dim, settings):
        n_parts += N_BUNDLES
    return 8 * stores.dim**2 * n_parts


def _reading_rule(walk: Walk, stores: Stores, settings: CompareSettings) -> str:
    rule = "each worker reads a view once a tile"
    if not walk.held:
        rule = "views do not fit into --memory: every pass reads them"
    if not stays_from_moments(walk.held, walk.n_tiles, settings):
        passes = ica_passes(stores, settings)
        more = f", of ICA and its halves {passes} times" if passes else ""
        rule = f"the moments once{more}; {rule}"
    return rule


def announced(stores: Stores, settings: CompareSettings, *, workers: int) -> tuple[int, str]:
    """Return how many seconds a comparison may take, and in one line why."""
    n_pairs, starts = stores.n_pairs, stores.views * space_starts(stores, settings)
    made = [f"{starts:,} starts of ICA"] if starts else []
    if halves_have_ica(stores.rows, stores.dim, settings):
        n_samples = settings.n_halves or N_HALVES
        made.append(f"{n_fits(settings) * n_samples * stores.views:,} on half-samples of the rows")
    if settings.n_null:
        made.append(f"{settings.n_null} shuffles a pair")
    alone = sum(expected_seconds(stores, settings).values())
    seconds = round(alone / max(min(workers, n_pairs), 1))
    return seconds, (
        f"{n_pairs:,} {'pair' if n_pairs == 1 else 'pairs'} of up to {stores.rows:,} × "
        f"{stores.dim:,}{': ' if made else ''}{', '.join(made)}; roughly {in_time(seconds)}, less "
        "where work is kept from before (--plan says more)"
    )


def _sent_bytes(stores: Stores, moments: int, n_tasks: int) -> int:
    """Return what goes to workers: large arrays once, small ones with every task."""
    n_views, n_pairs, n_rows = stores.views, stores.n_pairs, stores.rows
    if 8 * stores.dim**2 >= SHARED_BYTES:
        sent = n_views * moments
    else:  # of the pairs of a task one side is mostly the same
        sent = (n_tasks + n_pairs) * moments
    if 8 * n_rows >= SHARED_BYTES:
        of_rows = PAIR_OWN_BYTES * n_pairs + VIEW_OWN_BYTES * n_views + ONCE_BYTES
    else:
        of_rows = PAIR_ROW_BYTES * n_pairs + VIEW_ROW_BYTES * n_views
    return sent + n_rows * of_rows


def extract_costs(job: "ExtractJob", *, workers: int, process_bytes: int) -> list[Cost]:
    """Return what an extraction will take; ``process_bytes`` is a process with the model loaded."""
    settings, n_samples = job.settings, len(job.selection)
    n_rows = round(n_samples * job.rows_per_sample)
    dims = sum(job.dims.values())
    value_bytes = 2 if settings.store_dtype == "float16" else 4
    first = [job.selection.read(k) for k in range(min(16, n_samples))]
    id_bytes = max((len(sample.id.encode()) for sample in first), default=0)
    row_bytes = dims * value_bytes + INDEX_BYTES + (id_bytes if settings.with_ids else 0)
    written = n_rows * row_bytes
    # One shard is filled while the one before is written.
    shard = round(job.per_shard * job.rows_per_sample) * (dims * 4 + INDEX_BYTES)
    memory = process_bytes + 2 * min(shard, written)
    is_packed = settings.output.suffix == ".h5"
    return [
        Cost("samples", n_samples, "", "of the data, after --limit and --sample"),
        Cost("shards", job.n_shards, "", f"{job.per_shard:,} samples each; a lost one is redone"),
        Cost("rows", n_rows, "", f"{job.rows_per_sample:.4g} of a sample, from the first ones"),
        Cost("bytes of the store", written, "bytes", "rows × (columns of all views and the index)"),
        Cost(
            "bytes on the disk at most",
            written * (2 if is_packed else 1),
            "bytes",
            "shards, and beside them the one file that they are packed into" if is_packed else "",
        ),
        Cost("memory of a worker", memory, "bytes", "libraries and model, two shards of rows"),
        Cost("memory of all workers", workers * memory, "bytes", f"{workers} × that"),
    ]


def times(costs: Sequence[Cost], number: int) -> list[Cost]:
    """Return the costs of so many alike extractions: all but memory are of all of them."""
    if number == 1:
        return list(costs)
    models = Cost("models", number, "", "as large as the first")
    return [models] + [
        cost if cost.quantity.startswith("memory") else replace(cost, amount=number * cost.amount)
        for cost in costs
    ]


def in_time(seconds: float) -> str:
    """Return a time for people: 40 s, 3 min, 2 h."""
    for unit, size in (("days", 86400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"
