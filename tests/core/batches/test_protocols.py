from pathlib import Path

import numpy as np
import pytest

from repalign.core.batches.folds import PROTOCOLS, BatchFold, batch_folds
from repalign.core.batches.measures import MEASURES, measure_called

DOCS = (Path(__file__).parents[3] / "docs" / "disentangle.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_protocol_judges_batches_that_it_has_not_seen(protocol) -> None:
    batches = np.repeat(np.arange(6), 10)
    folds = batch_folds(protocol, np.arange(60) % 2, batches, n_folds=3, seed=0)
    assert len(folds) >= 2
    for fold in folds:
        assert isinstance(fold, BatchFold)
        assert not set(batches[fold.train]) & set(batches[fold.test])
        assert fold.train.size + fold.test.size == 60


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_the_docs_define_every_protocol(protocol) -> None:
    assert f"`{protocol}` " in DOCS


@pytest.mark.parametrize("measure", MEASURES, ids=lambda measure: measure.name)
def test_every_measure_has_a_heading_and_stands_in_the_docs(measure) -> None:
    assert measure_called(measure.name).heading.format(share="25 %", null=".2")
    assert f"`{measure.name}`" in DOCS
