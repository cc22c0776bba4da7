"""Compare representations of the same inputs."""
