"""Which tensor of a model becomes which rows."""
