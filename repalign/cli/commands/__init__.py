"""The commands, one a module: parse, one call of a workflow, show."""
