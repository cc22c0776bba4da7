"""What a model offers, without any data: layers with sizes, views that extract would make."""

from collections.abc import Sequence
from dataclasses import dataclass

from repalign.exceptions import RepalignError
from repalign.models.inputs.choice import choose_preprocess
from repalign.models.inputs.images import ImageBackend
from repalign.models.inputs.sounds import load_sound_encoder
from repalign.models.inputs.text import load_text_encoder
from repalign.models.loaders.load import load_model
from repalign.models.loaders.loaded import LoadedModel
from repalign.models.naming.presets import resolve_name
from repalign.models.views.layers import ALL, EMBEDDINGS, Tap, resolve_layers
from repalign.models.views.views import fit_views, make_views, probe_shapes


@dataclass(frozen=True)
class LayerLine:
    """One layer: what to ask for, the module behind it, its columns and positions."""

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
    """Load a model and describe it; ``layers`` and ``pools`` as an extraction would take them.

    Raises InputError or ModelError for what cannot be used.
    """
    _, preset = resolve_name(name)
    model = load_model(name, trust_code=trust_code)
    size = _image_size(model, preprocess)
    views = make_views(model, layers, pools)
    views = fit_views(model, views, probe_shapes(model, [view.tap for view in views], size))
    return ModelDescription(
        model=model.origin.model,
        loader=model.origin.loader,
        class_name=model.origin.class_name,
        family=model.family.name,
        kind=model.family.kind,
        parameters=sum(parameter.numel() for parameter in model.module.parameters()),
        poolings=model.family.pools,
        final=model.family.final_note,
        layers=_layer_lines(model, size),
        modules=model.layers.modules,
        views=tuple((view.key, _place(view.tap), view.pool) for view in views),
        prepared=_prepared(model, preprocess, image_backend),
        files=dict(model.origin.files),
        certain=preset.certain if preset else "",
        inferred=preset.inferred if preset else "",
        licence=preset.licence if preset else model.origin.licence,
    )


def _image_size(model: LoadedModel, preprocess: str | None) -> tuple[int, int] | None:
    if model.family.kind == "image" and preprocess is not None:
        return choose_preprocess(model, preprocess).output_size
    return None


def _layer_lines(model: LoadedModel, size: tuple[int, int] | None) -> tuple[LayerLine, ...]:
    taps = resolve_layers(model.layers, ("0", ALL))
    shapes = probe_shapes(model, taps, size)
    lines = []
    for number, tap in enumerate(taps):
        layer = tap.label if tap.label == model.layers.final.label else str(number)
        if tap.label == EMBEDDINGS:
            layer = "0"
        positions = shapes[tap.label].positions
        if tap == model.layers.final and "own" in model.family.pools:
            positions = 1  # the vector of a text
        shown = "tokens" if positions is None else str(positions)
        if model.sound is not None and len(model.sound.shape) == 1:
            shown = "states"  # as many as the sound is long
        lines.append(
            LayerLine(
                layer=layer,
                module=_place(tap),
                columns=shapes[tap.label].dim,
                positions=shown,
            )
        )
    return tuple(lines)


def _place(tap: Tap) -> str:
    return (tap.module or "returned value") + (" (input)" if tap.side == "input" else "")


def _prepared(model: LoadedModel, preprocess: str | None, backend: ImageBackend) -> str:
    try:
        if model.family.kind == "text":
            encoder = load_text_encoder(model)
            return f"tokenizer {encoder.sha256[:12]}, up to {encoder.max_length} tokens"
        if model.sound is not None:
            sounds = load_sound_encoder(model)
            return f"{type(sounds.extractor).__name__} at {sounds.rate} Hz"
        if model.prepare is not None and preprocess is None:
            return f"images by the function of {model.origin.model}"
        chosen = choose_preprocess(model, preprocess, backend)
    except RepalignError as error:
        return str(error)
    return (
        f"{chosen.name}: resize {chosen.resize}, crop {chosen.crop}, {chosen.interpolation} by "
        f"{chosen.backend}, "
        f"mean {chosen.mean}, std {chosen.std}"
    )
