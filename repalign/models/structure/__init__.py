"""What a model is made of, known beforehand or read from the model itself."""
