"""Simulations of known laws: how often p-values and intervals hold what they claim."""
