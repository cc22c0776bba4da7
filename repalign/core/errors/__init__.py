"""How far a map misses, and what that is divided by."""
