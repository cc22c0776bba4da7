"""From texts and images to what a model takes."""
