"""The small trained models that ship with the package, and the command that trains them."""
