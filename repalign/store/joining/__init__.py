"""Which rows of several sources are the same inputs."""
