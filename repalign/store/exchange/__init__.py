"""Into stores from other formats, and out of them."""
