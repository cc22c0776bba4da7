"""Options of stores whose shards are small, so that few rows make several."""

from dataclasses import dataclass

from repalign.options import option
from repalign.store import WriteOptions


@dataclass(frozen=True)
class SmallShards(WriteOptions):
    """Options with a number of rows in a shard; None for the default."""

    shard_rows: int | None = option(None, "Rows of one shard.", flag="")

    def rows_of_shard(self, row_bytes: int) -> int:
        return self.shard_rows or super().rows_of_shard(row_bytes)
