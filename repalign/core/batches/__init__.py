"""How well a label is told on batches that were never seen."""
