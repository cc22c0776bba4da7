"""Embeddings of perturbed and control samples on plates: published ones, or digits made so."""
