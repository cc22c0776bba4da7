"""A result as one HTML page."""
