"""Checkpoints made of parts: an encoder of another library, and what stands behind it."""
