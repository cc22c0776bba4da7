"""RxRx3-core: embeddings of OpenPhenom by well, and what was done to the wells."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from repalign.exceptions import InputError, MissingExtraError
from repalign.experiments.plates.plated import CONTROL, Plated

EMBEDDINGS, WELLS = "OpenPhenom_rxrx3_core_embeddings.parquet", "metadata_rxrx3_core.csv"
# Table 3 of the paper.
GENES = ("CYP11B1", "EIF3H", "HCK", "MTOR", "PLK1", "SRC")
_EMPTY = "EMPTY_control"
_NEEDED = ("well_id", "experiment_name", "plate", "gene", "treatment")


def read_rxrx3(folder: Path, genes: Sequence[str] = GENES) -> Plated:
    """Return the wells of the guides of some genes and the empty controls.

    A perturbation is a guide, called gene and treatment; a plate is one of an experiment. Controls
    are those of experiments in which one of the guides was used.

    Raises:
        InputError: A file or column is missing, or wells of the genes are.
        MissingExtraError: Parquet without pyarrow.
    """
    import pandas

    try:
        wells = pandas.read_csv(folder / WELLS, dtype=str, usecols=list(_NEEDED))
        frame = pandas.read_parquet(folder / EMBEDDINGS)
    except ImportError as error:
        raise MissingExtraError("pyarrow", extra="parquet", purpose="reading RxRx3-core") from error
    except (OSError, ValueError) as error:
        raise InputError(f"{folder}: {error}; expected {WELLS} and {EMBEDDINGS}") from error
    if "well_id" not in frame:
        raise InputError(f"{EMBEDDINGS} has no column well_id; expected one, and 384 of features")
    perturbed = wells.gene.isin(genes)
    used = wells.experiment_name.isin(wells.experiment_name[perturbed])
    chosen = wells[perturbed | ((wells.gene == _EMPTY) & used)]
    joined = chosen.merge(frame, on="well_id", how="inner", validate="one_to_one")
    if not joined.gene.isin(genes).any() or not (joined.gene == _EMPTY).any():
        raise InputError(f"{folder} holds no wells of {', '.join(genes)} besides {_EMPTY}")
    features = [name for name in frame.columns if name != "well_id"]
    guide = (joined.gene + " " + joined.treatment).to_numpy(dtype=str)
    done = np.where(joined.gene.to_numpy(dtype=str) == _EMPTY, CONTROL, guide)
    plate = (joined.experiment_name + " " + joined.plate).to_numpy(dtype=str)
    return Plated(joined[features].to_numpy(dtype=np.float64), done, plate)
