"""Foreign formats that are directories."""
