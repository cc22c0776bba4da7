"""What experiments say and draw, where that is more than fits next to their settings."""
