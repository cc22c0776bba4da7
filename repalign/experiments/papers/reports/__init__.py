"""What experiments say and draw, where that is more than fits beside their settings."""
