"""Similarity measures that are not maps."""
