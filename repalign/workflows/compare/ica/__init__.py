"""ICA in a comparison: starts, halves of the rows that tell how it varies, Gaussian twins."""
