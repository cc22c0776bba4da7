"""Rows that are not in a store: in memory, in plain files, converted, reordered."""
