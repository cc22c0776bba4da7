"""What is measured of a label on held-out batches: the one list that tables and docs follow."""

from dataclasses import dataclass

from repalign.core.resampling.kinds import NULL_OF


@dataclass(frozen=True)
class BatchMeasure:
    """One measure; ``{share}`` and ``{null}`` stand in its heading for what a table shows."""

    name: str
    heading: str


MEASURES = (
    BatchMeasure("AUROC", "AUROC ↑"),
    BatchMeasure("Hoyer", "Hoyer sparsity of splits ↑"),
    BatchMeasure("AUROC-top", "AUROC of the top {share}"),
    BatchMeasure("AUROC-rest", "AUROC of the rest ({share} left out)"),
    BatchMeasure("concentration-difference", "concentration ↑, top {share} − rest"),
    BatchMeasure("concentration-relative", "concentration ↑, top {share} / rest − 1"),
    BatchMeasure("concentration-above-chance", "concentration ↑, (top {share} − rest) / (top − ½)"),
    BatchMeasure("AUROC-permuted", f"AUROC, {NULL_OF['permuted labels'].told} (the null)"),
    BatchMeasure("batch-accuracy", "batch told from the rows, balanced accuracy ↓ (chance {null})"),
)


def measure_called(name: str) -> BatchMeasure:
    """Return the measure of this name."""
    return next(measure for measure in MEASURES if measure.name == name)
