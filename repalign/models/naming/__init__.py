"""What a user calls a model, and where its files are."""
