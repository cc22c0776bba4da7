"""Any embeddings, opened as one kind of source."""
