"""Results as files: read back, run again, held to bounds, their maps applied."""
