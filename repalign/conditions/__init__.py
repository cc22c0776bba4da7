"""Conditions as a run asks for them: chosen, fitted, saved."""
