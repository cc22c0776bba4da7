"""Results as tables that people read."""
