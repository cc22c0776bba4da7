"""From values to files that survive being killed."""
