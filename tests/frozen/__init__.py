"""Outputs of the whole tool, kept as files, so that a change shows which numbers it moves."""
