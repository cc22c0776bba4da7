"""Models and pairs of the literature by short names, with what is certain and what is inferred."""

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from repalign.exceptions import InputError
from repalign.models.loaders.families import Kind
from repalign.models.naming.shipped import WEIGHTS_FOLDER, shipped_names
from repalign.models.naming.spec import existing_path


@dataclass(frozen=True)
class Preset:
    """A short name for one checkpoint; ``kind`` is what it takes, ``group`` whom it belongs to."""

    name: str
    model: str
    certain: str
    inferred: str = ""
    licence: str = "unknown"
    kind: Kind = "text"
    group: str = ""


@dataclass(frozen=True)
class PresetPair:
    """Two presets that belong together, and how sure it is that they are the pair meant."""

    name: str
    source: str
    target: str
    certain: str
    inferred: str


_PILE = "Trained on the standard (not the de-duplicated) Pile."
_PYTHIA_0 = "The plain Pythia run (seed 1234), which the PolyPythias evaluation files as seed 0."


def _pythia(size: str, seed: int) -> Preset:
    base = f"hf:EleutherAI/pythia-{size}"
    if seed == 0:
        certain = f"{_PYTHIA_0} {_PILE}"
        return Preset(
            f"pythia-{size}-seed0", base, certain, licence="Apache-2.0", group=f"pythia-{size}"
        )
    return Preset(
        f"pythia-{size}-seed{seed}",
        f"{base}-seed{seed}",
        f"PolyPythias: initialisation and data order differ from seed 0. {_PILE}",
        "Its main branch was seen with safetensors (160m-seed1); where there are none, the pickle "
        "file is read.",
        "Apache-2.0",
        group=f"pythia-{size}",
    )


def _pythia_part(part: str, seed: int) -> Preset:
    varied = "data order" if part == "data" else "initialisation"
    return Preset(
        f"pythia-160m-{part}-seed{seed}",
        f"hf:EleutherAI/pythia-160m-{part}-seed{seed}@step143000",
        f"PolyPythias: only the {varied} differs from seed 0. {_PILE}",
        "The weights were seen on the step143000 branch and not on main.",
        "Apache-2.0",
        group=f"pythia-160m-{part}",
    )


def _multibert(seed: int) -> Preset:
    return Preset(
        f"multiberts-seed{seed}",
        f"hf:google/multiberts-seed_{seed}",
        "BERT-base, uncased, one of 25 runs that differ in seed; the weights are a pickle file.",
        licence="Apache-2.0",
        group="multiberts",
    )


_CHEXPERT_INFERRED = (
    "That this is the checkpoint of the paper's pair; the other candidate is "
    "hf:1aurent/vit_{0}_patch16_224.medmae_CXR_mae_ft_CheXpert."
)
_CHEXPERT = "timm repackaging of medical_mae; ViT-{0}/16, mask ratio 0.9, 800 epochs on {1}."
_SINGLE = (
    Preset(
        "mae-timm",
        "timm:vit_base_patch16_224.mae",
        "Weights of mae_pretrain_vit_base.pth (per-patch normalised pixels as target).",
        licence="CC-BY-NC-4.0",
        kind="image",
        group="mae",
    ),
    Preset(
        "mae-original",
        "hf:facebook/vit-mae-base",
        "Same architecture and data as mae-timm, another training run.",
        "Most likely mae_visualize_vit_base.pth (raw pixels as target), by the conversion script.",
        "CC-BY-NC-4.0",
        kind="image",
        group="mae",
    ),
    Preset(
        "chexpert-small",
        "hf:1aurent/vit_small_patch16_224.medmae_CXR_mae",
        _CHEXPERT.format("S", "CheXpert and ChestX-ray14 (0.3M images, 384 columns)"),
        _CHEXPERT_INFERRED.format("small"),
        "Apache-2.0 (weights), CheXpert data gated",
        kind="image",
        group="chexpert",
    ),
    Preset(
        "chexpert-base",
        "hf:1aurent/vit_base_patch16_224.medmae_CXR_mae",
        _CHEXPERT.format("B", "those and MIMIC (0.5M images, 768 columns): other data than small"),
        _CHEXPERT_INFERRED.format("base"),
        "Apache-2.0 (weights), CheXpert data gated",
        kind="image",
        group="chexpert",
    ),
    Preset(
        "resnet18-a1",
        "timm:resnet18.a1_in1k",
        "ImageNet ResNet-18, timm recipe A1.",
        licence="Apache-2.0",
        kind="image",
        group="resnet18",
    ),
    Preset(
        "resnet18-a2",
        "timm:resnet18.a2_in1k",
        "ImageNet ResNet-18, timm recipe A2 (another schedule than A1).",
        licence="Apache-2.0",
        kind="image",
        group="resnet18",
    ),
    Preset(
        "resnet18-torchvision",
        "torchvision:resnet18",
        "ImageNet ResNet-18 of torchvision (IMAGENET1K_V1); timm's tv_in1k holds the same weights.",
        licence="BSD-3-Clause",
        kind="image",
        group="resnet18",
    ),
)
_POLY = tuple(_pythia(size, s) for size in ("14m", "31m", "70m", "160m", "410m") for s in range(10))
_PARTS = tuple(_pythia_part(part, s) for part in ("data", "weight") for s in (1, 2, 3))

PRESETS: dict[str, Preset] = {
    preset.name: preset
    for preset in (*_SINGLE, *_POLY, *_PARTS, *(_multibert(s) for s in range(25)))
}

PAIRS = (
    PresetPair(
        "pythia-160m",
        "pythia-160m-seed0",
        "pythia-160m-seed1",
        "Both checkpoints exist and differ in initialisation and data order.",
        "That the paper's '-0' and '-1' are these two; its rows, sequence length and token "
        "positions are unknown.",
    ),
    PresetPair(
        "mae",
        "mae-timm",
        "mae-original",
        "Separate training runs of one architecture on one data set, with different pixel targets.",
        "That the paper's pair is this one (identical weights could not give its errors).",
    ),
    PresetPair(
        "chexpert",
        "chexpert-small",
        "chexpert-base",
        "Widths 384 and 768, different training data.",
        "That these are the paper's checkpoints, and not those named "
        "…_CXR_mae_ft_CheXpert (small and base); how it compared unequal widths is unknown.",
    ),
    PresetPair(
        "resnet18",
        "resnet18-a1",
        "resnet18-a2",
        "One architecture and data set, two schedules. Not the paper's pair.",
        "A stand-in: the paper's ResNet-18-fc-1 and -2 cannot be identified.",
    ),
)


def find_presets(kind: Kind | None = None, search: str = "") -> list[Preset]:
    """Presets that take such data and have a text in their name, model or group.

    Raises InputError when there are none.
    """
    wanted = search.lower()
    found = [
        preset
        for preset in PRESETS.values()
        if (kind is None or preset.kind == kind)
        and any(wanted in part.lower() for part in (preset.name, preset.model, preset.group))
    ]
    if not found:
        of_kind = "" if kind is None else f" for {kind}s"
        raise InputError(
            f"no preset{of_kind} has {search!r} in its name; `repalign models` lists them all, and "
            "any model can be named without one (`repalign extract --help`)"
        )
    return found


def preset_groups(presets: Iterable[Preset]) -> dict[str, list[Preset]]:
    """Presets by their group, in the order in which groups begin."""
    groups: dict[str, list[Preset]] = {}
    for preset in presets:
        groups.setdefault(preset.group, []).append(preset)
    return groups


def shown_names(names: Sequence[str]) -> str:
    """Names one after the other; of many seeds the first, the last, and how many they are."""
    seeds: dict[str, list[str]] = {}
    for name in names:
        stem, is_seed, _ = name.rpartition("-seed")
        seeds.setdefault(stem if is_seed else name, []).append(name)
    return ", ".join(_shown_seeds(each) for each in seeds.values())


def _shown_seeds(names: Sequence[str], most: int = 2) -> str:
    if len(names) <= most:
        return ", ".join(names)
    return f"{names[0]} … seed{names[-1].rpartition('-seed')[2]} ({len(names)})"


def near_presets(name: str) -> tuple[str, ...]:
    """Return names of presets and shipped models that resemble a name, nearest first."""
    known = [*PRESETS, *shipped_names()]
    return tuple(difflib.get_close_matches(name, known, n=3, cutoff=0.6))


def resolve_name(text: str) -> tuple[str, Preset | None]:
    """Replace the name of a preset or a shipped model by the model; other text passes unchanged.

    What exists under that name on this disk comes before any preset.

    Raises InputError for a bare word that resembles a preset and is no existing path.
    """
    if existing_path(text) is not None:
        return text, None
    preset = PRESETS.get(text)
    if preset is not None:
        return preset.model, preset
    if text in shipped_names():
        return str(WEIGHTS_FOLDER / text), None
    near = near_presets(text) if ":" not in text and "/" not in text else ()
    if near:
        raise InputError(f"unknown model {text!r}; did you mean {', '.join(near)}?")
    return text, None
