"""Description of a model: its layers with sizes, and the views of an extraction."""

from collections.abc import Sequence
from dataclasses import dataclass

from repalign.exceptions import RepalignError
from repalign.models.capture import fit_views, make_views, probe_shapes
from repalign.models.encoder import ALL, EMBEDDINGS, Encoder, Tap, resolve_layers
from repalign.models.inputs.images import ImageBackend
from repalign.models.load import load_encoder, load_inputs
from repalign.models.names import resolve_name


@dataclass(frozen=True)
class LayerLine:
    """One layer: its name, the module behind it, its columns and positions."""

    layer: str
    module: str
    columns: int
    positions: str


@dataclass(frozen=True)
class ModelDescription:
    """A model with its layers, the views that extract would make, and its origin.

    ``certain`` and ``inferred`` are those of a preset. ``prepared`` says in one line how inputs
    are made ready, or why they cannot be without a further option.
    """

    model: str
    loader: str
    class_name: str
    family: str
    kind: str
    parameters: int
    poolings: tuple[str, ...]
    final: str
    layers: tuple[LayerLine, ...]
    modules: tuple[str, ...]
    views: tuple[tuple[str, str, str], ...]
    prepared: str
    files: dict[str, str]
    certain: str = ""
    inferred: str = ""
    licence: str | None = None


def describe_model(
    name: str,
    *,
    layers: Sequence[str] = (),
    pools: Sequence[str] = (),
    preprocess: str | None = None,
    image_backend: ImageBackend = "pil",
    trust_code: bool = False,
) -> ModelDescription:
    """Load a model and describe it.

    ``layers`` and ``pools`` are those of an extraction.

    Raises InputError or ModelError for what cannot be used.
    """
    _, preset = resolve_name(name)
    encoder = load_encoder(name, trust_code=trust_code)
    size = None
    try:
        inputs = load_inputs(encoder, preprocess=preprocess, backend=image_backend)
        prepared = str(inputs)
        size = getattr(inputs, "size", None)
    except RepalignError as error:
        if preprocess is not None:
            raise
        prepared = str(error)
    views = make_views(encoder, layers, pools)
    views = fit_views(encoder, views, probe_shapes(encoder, [view.tap for view in views], size))
    origin, family = encoder.origin, encoder.family
    return ModelDescription(
        model=origin.model,
        loader=origin.loader,
        class_name=origin.class_name,
        family=family.name,
        kind=family.kind,
        parameters=sum(parameter.numel() for parameter in encoder.module.parameters()),
        poolings=family.pools,
        final=family.final_note,
        layers=_layer_lines(encoder, size),
        modules=encoder.layers.modules,
        views=tuple((view.key, _module_name(view.tap), view.pool) for view in views),
        prepared=prepared,
        files=dict(origin.files),
        certain=preset.certain if preset else "",
        inferred=preset.inferred if preset else "",
        licence=preset.licence if preset else origin.licence,
    )


def _layer_lines(encoder: Encoder, size: tuple[int, int] | None) -> tuple[LayerLine, ...]:
    taps = resolve_layers(encoder.layers, ("0", ALL) if encoder.layers.blocks else (ALL,))
    shapes = probe_shapes(encoder, taps, size)
    lines = []
    for number, tap in enumerate(taps, start=0 if encoder.layers.blocks else 1):
        layer = tap.label if tap.label == encoder.layers.final.label else str(number)
        if tap.label == EMBEDDINGS:
            layer = "0"
        positions = shapes[tap.label].positions
        if tap == encoder.layers.final and "own" in encoder.family.pools:
            positions = 1  # the vector of a text
        shown = "tokens" if positions is None else str(positions)
        if encoder.sound is not None and len(encoder.sound.shape) == 1:
            shown = "states"  # as many as the sound is long
        lines.append(
            LayerLine(
                layer=layer,
                module=_module_name(tap),
                columns=shapes[tap.label].dim,
                positions=shown,
            )
        )
    return tuple(lines)


def _module_name(tap: Tap) -> str:
    return (tap.module or "returned value") + (" (input)" if tap.side == "input" else "")
