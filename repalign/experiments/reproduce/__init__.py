"""Experiments by name: what they are, their list, running them, what came out."""
