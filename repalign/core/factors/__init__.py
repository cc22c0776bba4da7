"""Scores of latents against ground-truth factors."""
