"""Many models and many layers in one comparison: who is compared, in which order, at what cost."""
