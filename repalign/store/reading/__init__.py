"""From files to checked values."""
