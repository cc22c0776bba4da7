"""How the two sides of a pair came about: equal content, equal weights, views made differently."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from repalign.core.moments import PairMoments
from repalign.store.sources.source import EmbeddingSource

MODEL_KEYS = ("file_sha256",)
# Parts that should agree, with the keys in them that only say how a library calls the thing.
SPEC_PARTS_THAT_SHOULD_AGREE: dict[str, tuple[str, ...]] = {
    "view": ("family", "module", "side"),
    "preprocess": ("name",),
    "tokenizer": (),
    "dataset": (),
}


def warn_of_sources(source: EmbeddingSource, target: EmbeddingSource) -> list[str]:
    """Warn of equal content, equal weights and views that were made in different ways."""
    names = f"{source.name} and {target.name}"
    found = []
    is_equal = source.fingerprint == target.fingerprint
    # views of one store are compared because that was asked for
    is_within = source.name == target.name
    if is_equal and not is_within:
        found.append(f"{names} hold exactly the same values: this compares a store with itself")
    specs = _spec_of(source), _spec_of(target)
    is_chosen = any(len(_views(each)) > 1 for each in (source, target))
    weights = [_weights(spec) for spec in specs]
    if weights[0] and weights[0] == weights[1] and not (is_equal or is_within):
        found.append(f"{names} come from the same weights: they differ only in how they were read")
    for part, labels in SPEC_PARTS_THAT_SHOULD_AGREE.items():
        # layers that were chosen among several are compared because they differ
        ignored = (*labels, "layer") if is_chosen else labels
        first, second = (_without(spec.get(part), ignored) for spec in specs)
        if first is not None and second is not None and first != second:
            keys = _differing(first, second)
            found.append(f"{names} differ in {part}{keys}: errors include that difference")
    return found


def warn_of_collapse(moments: PairMoments, source: str, target: str) -> list[str]:
    """Warn of a side whose rows are all equal."""
    scatters = ((source, moments.sxx), (target, moments.syy))
    return [
        f"{name}: all {moments.n} rows are equal, so the encoder has collapsed and no number says "
        "anything about this pair; ICA was left out; check the model and its input"
        for name, scatter in scatters
        if not np.trace(scatter) > 0
    ]


def _weights(spec: Mapping[str, Any]) -> Any:
    model = spec.get("model")
    if not isinstance(model, Mapping):
        return None
    return next((model[key] for key in MODEL_KEYS if model.get(key)), None)


def _views(source: EmbeddingSource) -> Mapping[str, Any]:
    """Return how each view of a store was made; nothing where that is not recorded."""
    found = ((source.info.get("spec") or {}).get("view") or {}).get("views")
    return found if isinstance(found, Mapping) else {}


def _spec_of(source: EmbeddingSource) -> dict[str, Any]:
    """Return how a view was made; what else its store holds changes nothing in it."""
    spec: dict[str, Any] = dict(source.info.get("spec") or {})
    own = _views(source).get(source.view)
    if isinstance(own, Mapping):
        others = {key: value for key, value in spec["view"].items() if key != "views"}
        spec["view"] = {**others, **own}
    return spec


def _without(value: Any, labels: Sequence[str]) -> Any:
    if not isinstance(value, Mapping):
        return value
    return {key: _without(item, labels) for key, item in value.items() if key not in labels}


def _differing(first: Any, second: Any) -> str:
    if not isinstance(first, Mapping) or not isinstance(second, Mapping):
        return ""
    keys = [key for key in {**first, **second} if first.get(key) != second.get(key)]
    return f" ({', '.join(sorted(keys))})"
