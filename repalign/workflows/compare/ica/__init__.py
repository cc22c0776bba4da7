"""ICA in a comparison: its starts, and the random rotations of its components."""
