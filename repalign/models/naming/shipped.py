"""The trained models that come with the package, by their names."""

from pathlib import Path

WEIGHTS_FOLDER = Path(__file__).parents[2] / "zoo" / "weights"


def shipped_names() -> tuple[str, ...]:
    """Return the names of all shipped models, recipe and seed, in order."""
    return tuple(sorted(path.name for path in WEIGHTS_FOLDER.iterdir() if path.is_dir()))
