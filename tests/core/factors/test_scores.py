import re

import numpy as np
import pytest

from repalign.core.factors.encoding import encode_factors
from repalign.core.factors.infomec import infomec_preset
from repalign.core.factors.kinds import DEFAULT_GROUPS
from repalign.core.factors.scores import ScoreSettings, score_factors, score_names
from repalign.exceptions import InputError

QUICK = ScoreSettings(groups=("infomec", "mcc", "r2", "mig"))


def planted(seed: int, n_rows: int = 400):
    rng = np.random.default_rng(seed)
    sources = np.stack([rng.integers(0, 4, n_rows), rng.integers(0, 3, n_rows)], axis=1)
    factors = encode_factors({"shape": sources[:, 0], "hue": sources[:, 1]})
    return factors, sources + 0.3 * rng.normal(size=(n_rows, 2))


def test_scores_come_in_a_fixed_order_with_explicitness_first() -> None:
    groups = ("explicitness", *DEFAULT_GROUPS, "sap")
    found = score_factors(*planted(0), ScoreSettings(groups=groups))
    names = [score.name for score in found.scores]
    assert names[:3] == ["InfoE", "InfoM", "InfoC"]
    assert names[3:] == [
        "InfoM-gap", "InfoC-gap", "MCC-pearson", "MCC-spearman", "linear-R2",
        "linear-R2-held-out", "MIG", "modularity", "SAP", "explicitness",
    ]  # fmt: skip
    assert found.value("InfoM") > 0.8


def test_dci_is_computed_when_asked_for() -> None:
    found = score_factors(*planted(0, 150), ScoreSettings(groups=("dci",)))
    assert found.value("DCI-disentanglement") > 0.5


def test_equal_seeds_give_equal_scores() -> None:
    factors, latents = planted(0)
    first, again = (score_factors(factors, latents, QUICK) for _ in range(2))
    assert [score.value for score in first.scores] == [score.value for score in again.scores]


def test_latents_and_factors_without_information_are_named() -> None:
    grid = np.tile(np.stack(np.meshgrid(range(4), range(3)), axis=-1).reshape(-1, 2), (20, 1))
    factors = encode_factors({"a": grid[:, 0], "b": grid[:, 1]})
    latents = np.column_stack([grid[:, 0], np.arange(240) // 12]).astype(float)
    settings = ScoreSettings(
        groups=("infomec",), infomec=infomec_preset("standard", discrete_latents=True)
    )
    notes = score_factors(factors, latents, settings).notes
    assert "latents 1" in notes[0]
    assert re.search(r"\bb\b", notes[1])


@pytest.mark.parametrize(
    ("latents", "message"),
    [
        (np.zeros((399, 2)), "399.* 400"),
        (np.zeros((400, 0)), "no latent"),
        (np.where(np.arange(800).reshape(400, 2) == 5, np.nan, 0.0), "1.* 2.* nan"),
    ],
)
def test_latents_that_cannot_be_scored_are_refused(latents, message: str) -> None:
    factors, _ = planted(0)
    with pytest.raises(InputError, match=message):
        score_factors(factors, latents)


def test_unknown_groups_and_scores_are_refused() -> None:
    with pytest.raises(InputError, match=r"beta-vae.* infomec"):
        score_names(("beta-vae",))
    with pytest.raises(InputError, match="no score group"):
        score_names(())
    with pytest.raises(InputError, match=r"InfoX.* MCC-pearson"):
        score_factors(*planted(0), ScoreSettings(groups=("mcc",))).value("InfoX")
