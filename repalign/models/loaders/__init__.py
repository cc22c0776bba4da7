"""From a checkpoint to a model that is ready to run."""
