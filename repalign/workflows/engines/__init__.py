"""Engines: who does units of work and shards when one process is not enough."""
