"""The list of experiments, each a module of ``repalign.experiments.papers``."""

import difflib
from importlib import import_module

from repalign.exceptions import InputError
from repalign.experiments.reproduce.experiment import Experiment

_ROOM = "repalign.experiments.papers"

# In the order in which they are shown.
MODULES = (
    "table1",
    "warmup",
    "disentangle",
    "deconfound",
    "gaussian_null",
    "contrastive",
    "cross_entropy",
    "proxy_factors",
    "radial_classes",
    "data_size",
    "width",
    "layers",
)


def experiments() -> tuple[Experiment, ...]:
    """Return every experiment."""
    return tuple(import_module(f"{_ROOM}.{module}").EXPERIMENT for module in MODULES)


def find_experiment(name: str) -> Experiment:
    """Return the experiment of that name.

    Raises:
        InputError: There is none.
    """
    known = {each.name: each for each in experiments()}
    if name in known:
        return known[name]
    near = difflib.get_close_matches(name, known, n=1)
    hint = f"did you mean {near[0]}?" if near else f"expected one of: {', '.join(known)}"
    raise InputError(f"no experiment is called {name!r}; {hint}")
