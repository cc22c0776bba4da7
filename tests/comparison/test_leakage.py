"""Labels, batches and factors in the table of the embeddings are never features."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from repalign.conditions.columns import align_columns, check_features, open_columns
from repalign.conditions.settings import TransformSettings
from repalign.deconfounding.run import deconfound
from repalign.deconfounding.settings import BatchSettings
from repalign.disentanglement.run import disentangle
from repalign.disentanglement.settings import FactorSettings
from repalign.exceptions import InputError
from repalign.store.open import as_source, open_embeddings

RAW = TransformSettings(conditions=("raw",))
BATCHES = BatchSettings(
    top_percent=(), n_permuted=0, judge_batches=False, rounds=20, n_folds=3, transform=RAW
)
FACTORS = FactorSettings(scores=("mcc",), n_null=0, n_halves=0, factors=("treated",), transform=RAW)


def noise(shift: float = 0.0) -> pd.DataFrame:
    """Features that know nothing of the label, or in the first one so much."""
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.standard_normal((300, 4)), columns=list("abcd"))
    table["treated"] = rng.integers(0, 2, 300)
    table["a"] += shift * table["treated"]
    table["plate"] = np.arange(300) % 6
    table["Metadata_dose"] = table["treated"] * 0.5
    table["Metadata_Well"] = [f"B{row:03}" for row in range(300)]
    return table


def save_anndata(table: pd.DataFrame, path: Path) -> str:
    anndata = pytest.importorskip("anndata")
    obs = table.drop(columns=list("abcd")).set_index("Metadata_Well")
    obs["plate"] = pd.Categorical([f"plate {number}" for number in obs["plate"]])
    anndata.AnnData(table[list("abcd")].to_numpy(), obs=obs).write_h5ad(path)
    return f"{path}::X"


def save_parquet(table: pd.DataFrame, path: Path) -> str:
    pytest.importorskip("pyarrow")
    table.to_parquet(path)
    return str(path)


SAVE: dict[str, Callable[[pd.DataFrame, Path], Any]] = {
    "csv": lambda table, path: table.to_csv(path, index=False) or str(path),
    "tsv": lambda table, path: table.to_csv(path, index=False, sep="\t") or str(path),
    "parquet": save_parquet,
    "h5ad": save_anndata,
    "frame": lambda table, _: table,
}
every_kind = pytest.mark.parametrize("kind", SAVE)


def both(kind: str, table: pd.DataFrame, folder: Path) -> tuple[Any, Any]:
    """Return what is given as embeddings and as the table of labels: one file, or one frame."""
    embeddings = SAVE[kind](table, folder / f"{len(list(folder.iterdir()))}.{kind}")
    return embeddings, embeddings.split("::")[0] if isinstance(embeddings, str) else embeddings


@every_kind
def test_noise_beside_its_label_is_noise_and_a_signal_is_found(tmp_path: Path, kind: str) -> None:
    pytest.importorskip("lightgbm")
    scores = []
    for shift in (0, 2):
        embeddings, columns = both(kind, noise(shift), tmp_path)
        result = deconfound(
            embeddings, columns, labels=["treated"], batch="plate", settings=BATCHES
        )
        (record,) = (record for record in result.records if record.measure == "AUROC")
        assert record.n_features == 4
        assert "4 columns are features" in result.warnings[0]
        assert not any("row order" in text for text in result.warnings)
        scores.append(record.value)
    assert abs(scores[0] - 0.5) < 0.1 < 0.8 < scores[1]


@every_kind
def test_factors_that_are_named_are_no_latents(tmp_path: Path, kind: str) -> None:
    embeddings, columns = both(kind, noise(), tmp_path)
    groups = "plate"
    result = disentangle(embeddings, columns, groups=groups, settings=FACTORS)
    assert result.matrices[0].latents[-4:] == (
        ("0", "1", "2", "3") if kind == "h5ad" else tuple("abcd")
    )
    assert len(result.matrices[0].latents) == 4
    assert result.records[0].value < 0.3


@pytest.mark.parametrize("kind", ["csv", "parquet", "frame"])
def test_a_table_of_all_columns_as_factors_of_themselves_is_refused(
    tmp_path: Path, kind: str
) -> None:
    embeddings, columns = both(kind, noise(), tmp_path)
    with pytest.raises(InputError, match="features and factors"):
        disentangle(embeddings, columns, scores="mcc", conditions="raw")


def test_a_label_is_no_feature_of_another_table_either(tmp_path: Path) -> None:
    noise().to_csv(tmp_path / "a.csv", index=False)
    labels = noise()[["treated", "plate"]]
    result = disentangle(tmp_path / "a.csv", labels, settings=FACTORS)
    assert result.matrices[0].latents == ("a", "b", "c", "d", "plate")
    assert any("left out: treated" in text for text in result.warnings)


def test_a_label_with_gaps_is_no_feature_and_its_rows_are_left_out(tmp_path: Path) -> None:
    table = noise().astype({"treated": float})
    table.loc[:4, "treated"] = np.nan
    table.insert(0, "gene", ["TP53", "KRAS", None] * 100)
    table.to_csv(tmp_path / "a.csv", index=False)
    named = ("treated", "gene", "plate")
    source = open_embeddings(tmp_path / "a.csv", leave_out=named)
    assert (source.columns, source.identity) == (("a", "b", "c", "d"), "row order")
    aligned = align_columns(source, open_columns(tmp_path / "a.csv"), named)
    assert aligned.rows.size == 300 - 5 - 100 + 1
    with pytest.raises(InputError, match=r"missing .*'treated'"):
        open_embeddings(tmp_path / "a.csv")


RNG = np.random.default_rng(1)
PLATE = np.arange(240) % 8
LABEL = RNG.integers(0, 2, 240)
GENE = RNG.integers(0, 5, 240)


@pytest.mark.parametrize(
    ("feature", "target"),
    [
        (LABEL, "label"),
        (7.5 - 3 * LABEL, "label"),
        (np.where(LABEL == 1, RNG.integers(1, 9, 240) / 10, 0.0), "label"),  # a dose
        (100 * LABEL + RNG.integers(0, 60, 240), "label"),  # a well on a plate of fixed layout
        ((3 * GENE + 2) % 5, "gene"),
        (GENE == 2, "gene"),
        (GENE != 2, "gene"),
        ((PLATE * 3) % 8 + 0.5, "plate"),
        (PLATE == 7, "plate"),
    ],
)
def test_a_copy_or_code_of_a_label_or_batch_is_refused_by_name(
    feature: np.ndarray, target: str
) -> None:
    values = np.column_stack([RNG.standard_normal((240, 2)), feature.astype(float)])
    source = as_source(pd.DataFrame(values, columns=["a", "b", "suspect"]))
    targets = {"label": LABEL, "gene": GENE.astype(str), "plate": PLATE}
    with pytest.raises(InputError, match=f"'suspect' determines '{target}'"):
        check_features(source, values, targets, PLATE)


@pytest.mark.parametrize(
    "feature",
    [
        np.zeros(240),
        LABEL + 1e-6 * RNG.standard_normal(240),  # continuous
        RNG.integers(0, 3, 240),
        np.where(RNG.random(240) < 0.02, 1 - LABEL, LABEL),
        (RNG.integers(0, 5, 240) - PLATE / 3) / (1 + PLATE / 7),  # few levels, scaled by plate
        PLATE // 2,
    ],
)
def test_features_that_only_go_with_a_label_are_allowed(feature: np.ndarray) -> None:
    source = as_source(feature[:, None].astype(float))
    one_batch, one_label = np.zeros(240), np.ones(240)
    targets = {"label": LABEL, "gene": GENE, "plate": PLATE, "a": one_batch, "b": one_label}
    check_features(source, feature[:, None].astype(float), targets, PLATE)


def test_an_open_source_with_a_copy_of_the_label_is_refused() -> None:
    pytest.importorskip("lightgbm")
    table = noise()
    table["code"] = 3 - table["treated"]
    with pytest.raises(InputError, match="'treated' determines 'treated'"):
        deconfound(as_source(table), table, labels=["treated"], batch="plate", settings=BATCHES)
    with pytest.raises(InputError, match="'code' determines 'treated'"):
        disentangle(table, table, settings=FACTORS)
    # elsewhere a latent that is the factor is what is hoped for
    latents = table[["a", "code"]].to_numpy(float)
    assert disentangle(latents, table, settings=FACTORS).records[0].value == pytest.approx(1)


def test_columns_of_observations_are_read_as_they_are(tmp_path: Path) -> None:
    anndata = pytest.importorskip("anndata")
    obs = pd.DataFrame(
        {
            "dose": [0.5, np.nan, 2.0],
            "count": [3, 1, 2],
            "is_control": [True, False, True],
            "gene": pd.Categorical(["b", None, "a"]),
            "site": pd.Categorical([3, 1, 3]),
            "donor": pd.array([7, None, 8], dtype="Int64"),
            "well": ["B02", "B03", "C01"],
        },
        index=["x", "y", "z"],
    )
    anndata.AnnData(np.eye(3), obs=obs).write_h5ad(tmp_path / "a.h5ad")

    table = open_columns(tmp_path / "a.h5ad")

    assert table.ids == ("x", "y", "z")
    columns = {name: table.column(name).tolist() for name in obs.columns}
    assert columns["gene"] == ["b", "", "a"]
    assert columns["site"] == [3, 1, 3]
    assert columns["well"] == ["B02", "B03", "C01"]
    assert columns["is_control"] == [True, False, True]
    assert columns["count"] == [3, 1, 2]
    for name, last in (("dose", 2.0), ("donor", 8.0)):
        assert np.isnan(columns[name][1])
        assert columns[name][2] == last
    assert open_columns(tmp_path / "a.h5ad", id_column="well").ids == ("B02", "B03", "C01")
