"""The forms in which a representation is judged."""
