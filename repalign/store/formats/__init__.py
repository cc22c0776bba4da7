"""Readers of embeddings that other programs wrote; none of them runs code from a file."""
