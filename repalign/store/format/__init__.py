"""What a store is on disk: names, header, digests, shards; no open files."""
