"""What an error may be believed for: splits, nulls, intervals."""
