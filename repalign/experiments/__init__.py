"""The experiments of the papers: settings and expected numbers, run by the workflows."""
