"""How many ICA fits a study makes, against its pairs compared one by one.

python benchmarks/study_ica.py [--stores 5] [--layers 2] [--starts 2]
"""

import argparse
import json
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import combinations, product
from pathlib import Path

from study import make_stores, timed

import repalign
from repalign.comparison.settings import CompareSettings
from repalign.core.ica.fit import Prepared

MAPS = ("rigid", "ica")
SHAPE = (2000, 64)


@contextmanager
def counted() -> Iterator[list[int]]:
    """Note the seed of every ICA that is fitted meanwhile."""
    fit, seeds = Prepared.fit, []

    def noting(self, seed, on_progress=None):
        seeds.append(seed)
        return fit(self, seed, on_progress)

    Prepared.fit = noting
    try:
        yield seeds
    finally:
        Prepared.fit = fit


def run(paths: list[Path], layers: list[str], starts: int) -> dict[str, object]:
    """Compare all layers across the stores, together and pair by pair."""
    settings = CompareSettings(
        maps=MAPS, starts=starts, held_out=0, n_null=0, n_halves=0, layers=("all",)
    )
    with counted() as together:
        study, _, shared = timed(lambda: repalign.compare(*paths, settings=settings))
    sides = [
        [repalign.open_embeddings(path, view=view) for path, view in pair]
        for one, other in combinations(paths, 2)
        for pair in product(product([one], layers), product([other], layers))
    ]
    with counted() as alone:
        single, _, apart = timed(
            lambda: [repalign.compare(*pair, settings=settings) for pair in sides]
        )
    errors = [
        {
            (
                each["source"],
                each["source_view"],
                each["target"],
                each["target_view"],
                each["map"],
            ): each["error"]
            for result in results
            for each in result.to_records()
        }
        for results in ([study], single)
    ]
    return {
        "views": len(paths) * len(layers),
        "pairs": len(sides),
        "starts": starts,
        "ICA fits, one study": len(together),
        "ICA fits, pair by pair": len(alone),
        "processor s, one study": shared,
        "processor s, pair by pair": apart,
        "values compared": len(errors[0]),
        "the same values": errors[0] == errors[1],
    }


def main() -> None:
    """Run both and print the figures as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--stores", type=int, default=5)
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--starts", type=int, default=2)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        paths = make_stores(Path(folder), arguments.stores, arguments.layers, SHAPE)
        layers = [f"block-{number}" for number in range(arguments.layers)]
        print(json.dumps(run(paths, layers, arguments.starts), indent=1))


if __name__ == "__main__":
    main()
