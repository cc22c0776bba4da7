"""A model through extract beside a bare pass of its own library, one sample at a time."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from repalign.data.samples import Sound
from repalign.exceptions import RepalignError
from repalign.models.capture import Batch, View, encode, fit_views, make_views, probe_shapes
from repalign.models.encoder import Encoder, Tap
from repalign.models.inputs.audio import load_audio_inputs
from repalign.models.inputs.text import load_text_inputs, pad_batch

WRONG = 1e-3
# rows of one text by layer, from the text, its tokens and the layers
BareRows = Callable[[str, Any, list[Tap]], dict[str, Tensor]]


@dataclass(frozen=True)
class Line:
    """One row of the table; ``reason`` is empty where the model opens.

    ``built`` says what was made smaller, ``without`` which layers were refused and why.
    """

    package: str
    name: str
    layers: int = 0
    gap: float = 0.0
    batch_gap: float = 0.0
    reason: str = ""
    built: str = ""
    without: str = ""


def relative(ours: Tensor, theirs: Tensor) -> float:
    """Largest difference over the root mean square; infinite for zeros and for what is no number.

    A comparison of zeros would show nothing.
    """
    size = float(theirs.square().mean().sqrt())
    gap = float((ours - theirs).abs().max())
    return gap / size if size > 0 and math.isfinite(gap / size) else math.inf


def copied(module: nn.Module, taps: list[Tap], run: Any) -> dict[str, Tensor]:
    """Tensors of taps by label, copied when their module ran; what ran returned by ``""``."""
    found: dict[str, Tensor] = {}

    def first(value: Any) -> Tensor | None:
        if isinstance(value, Tensor):
            return value
        if not isinstance(value, dict | tuple | list):
            return None
        parts = list(value.values() if isinstance(value, dict) else value)
        plain = next((part for part in parts if isinstance(part, Tensor)), None)
        inner = (found for part in parts if (found := first(part)) is not None)
        return plain if plain is not None else next(inner, None)

    def after(label: str) -> Any:
        def hook(_module: Any, _arguments: Any, output: Any) -> None:
            tensor = first(output)
            if tensor is not None:
                found[label] = tensor.clone()

        return hook

    def before(label: str) -> Any:
        def hook(_module: Any, arguments: Any, named: Any) -> None:
            tensor = first([*arguments, *named.values()])
            if tensor is not None:
                found[label] = tensor.clone()

        return hook

    handles = []
    for tap in taps:
        if tap.side == "returned":
            continue
        part = module.get_submodule(tap.module)
        if tap.side == "input":
            handles.append(part.register_forward_pre_hook(before(tap.label), with_kwargs=True))
        else:
            handles.append(part.register_forward_hook(after(tap.label)))
    with torch.no_grad():
        returned = run()
    for handle in handles:
        handle.remove()
    return {"": returned, **found} if isinstance(returned, Tensor) else found


def pooled(hidden: Tensor, patches: int | None, n_own: int) -> Tensor:
    """Mean over positions by another rule than extract's: the last so many tokens are patches."""
    if hidden.ndim == 2:
        return hidden
    if hidden.ndim == 4:
        sides = hidden.shape[1:]
        return hidden.mean((1, 2)) if sides[0] == sides[1] != sides[2] else hidden.mean((2, 3))
    if patches is not None and n_own and hidden.shape[1] > patches:
        return hidden[:, -patches:].mean(1)
    return hidden.mean(1)


def chosen_layers(model: Encoder) -> tuple[list[str], str]:
    """The final state, and those of some numbered layers that can be taken; why others cannot."""
    count = len(model.layers.blocks)
    chosen, refused = ["final"], []
    for number in sorted({0, 1, (count + 1) // 2, count}) if count else ():
        try:
            views = make_views(model, (str(number),))
            fit_views(model, views, probe_shapes(model, [views[0].tap]))
        except RepalignError as error:
            refused.append(f"{number}: {error}")
            continue
        chosen.append(str(number))
    return chosen, "; ".join(refused)


def images_of(model: Encoder, plain: Any, run: Any, library: str, name: str) -> Line:
    """Compare an image model with a bare pass."""
    assert model.image_size is not None
    generator = torch.Generator().manual_seed(0)
    pixels = torch.randn(3, *model.image_size, generator=generator)
    chosen, refused = chosen_layers(model)
    views: tuple[View, ...] = make_views(model, chosen)
    views = fit_views(model, views, probe_shapes(model, [view.tap for view in views]))
    taps = [view.tap for view in views]
    together = encode(model, views, Batch({"pixel_values": pixels}))
    gap = batch_gap = 0.0
    for k in range(len(pixels)):
        alone = encode(model, views, Batch({"pixel_values": pixels[k : k + 1]}))
        bare = copied(plain, taps, lambda k=k: run(pixels[k : k + 1]))
        whole = bare.get("", bare.get("final"))
        n_own = model.prefix_tokens
        patches = None
        if n_own and whole is not None and "final" in bare:
            patches = bare["final"].shape[1] - n_own
        for view in views:
            hidden = bare.get(view.tap.label, bare.get(""))
            assert hidden is not None
            ours = together[view.key][k : k + 1]
            gap = max(gap, relative(ours, pooled(hidden, patches, n_own)))
            batch_gap = max(batch_gap, relative(ours, alone[view.key]))
    return Line(library, name, len(views), gap, batch_gap, without=refused)


def texts_of(
    model: Encoder, texts: tuple[str, ...], bare: BareRows, package: str, name: str
) -> Line:
    """Compare a text model with a bare pass, one text at a time and without a mask."""
    encoder = load_text_inputs(model)
    ids = encoder.encode(list(texts))
    chosen, refused = chosen_layers(model)
    views = make_views(model, chosen, () if "own" in model.family.pools else ("mean",))

    def rows(part: list[Any]) -> dict[str, Tensor]:
        inputs, lengths = pad_batch(part, encoder.pad_id, masked=model.needs_mask)
        return encode(model, views, Batch(inputs, lengths))

    together = rows(ids)
    gap = batch_gap = 0.0
    for k, tokens in enumerate(ids):
        alone = rows([tokens])
        theirs = bare(texts[k], tokens, [view.tap for view in views])
        for view in views:
            ours = together[view.key][k : k + 1]
            gap = max(gap, relative(ours, theirs[view.tap.label]))
            batch_gap = max(batch_gap, relative(ours, alone[view.key]))
    return Line(package, name, len(views), gap, batch_gap, without=refused)


def mean_rows(plain: Any) -> BareRows:
    """Rows of a model of transformers: means over the tokens of each layer."""

    def bare(_text: str, tokens: Any, taps: list[Tap]) -> dict[str, Tensor]:
        ids = torch.from_numpy(tokens)[None]
        found = copied(plain, taps, lambda: plain(ids).last_hidden_state)
        found["final"] = found[""]
        return {tap.label: found[tap.label].mean(1) for tap in taps}

    return bare


def sounds_of(model: Encoder, plain: Any, name: str) -> Line:
    """Compare a model of sounds with a bare pass, one sound at a time and without a mask."""
    encoder = load_audio_inputs(model)
    rng = np.random.default_rng(0)
    # where padding is felt, sounds of one length share a batch
    seconds = (0.5, 0.5, 0.5) if encoder.needs_equal_lengths else (0.5, 0.31, 0.8)
    waves = [rng.normal(size=int(16_000 * s)).astype(np.float32) for s in seconds]
    sounds = [encoder.prepare(Sound(wave, 16_000)) for wave in waves]
    chosen, refused = chosen_layers(model)
    views = make_views(model, chosen)
    together = encode(model, views, Batch(*encoder.collate(sounds)))
    gap = batch_gap = 0.0
    for k, sound in enumerate(sounds):
        inputs, lengths = encoder.collate([sound])
        alone = encode(model, views, Batch(inputs, lengths))
        values = torch.from_numpy(sound.values)[None]
        taps = [view.tap for view in views]
        bare = copied(plain, taps, lambda v=values: plain(v).last_hidden_state)
        for view in views:
            hidden = bare[""] if view.tap.label == "final" else bare[view.tap.label]
            ours = together[view.key][k : k + 1]
            gap = max(gap, relative(ours, hidden[:, : int(lengths[0])].mean(1)))
            batch_gap = max(batch_gap, relative(ours, alone[view.key]))
    return Line("transformers", name, len(views), gap, batch_gap, without=refused)


def roughen(module: nn.Module) -> nn.Module:
    """Fill what begins as zeros or nearly so, behind which a wrong layer would not show."""
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for name, tensor in module.named_parameters():
            if float(tensor.abs().max()) < 1e-3:
                noise = torch.randn(tensor.shape, generator=generator)
                tensor.copy_(noise * 0.05 if "bias" in name else noise.abs() * 0.2 + 0.1)
    return module.eval()


def features_of_timm(plain: Any) -> Any:
    def run(pixels: Tensor) -> Tensor:
        features: Tensor = plain.forward_features(pixels)
        try:
            return plain.forward_head(features, pre_logits=True)  # type: ignore[no-any-return]
        except NotImplementedError:
            return features

    return run
