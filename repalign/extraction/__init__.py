"""From a model and data to a store."""
