"""The experiments of the papers: settings and expected numbers, run by one command."""
