"""The command line: the only package that imports typer and rich, and the only one that prints."""
