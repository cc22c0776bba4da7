"""Checkpoints and encoders: the only package that imports transformers and timm."""
