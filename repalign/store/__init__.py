"""Embedding stores: the only package that touches HDF5 and foreign embedding files."""
