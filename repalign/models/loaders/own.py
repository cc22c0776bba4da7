"""One's own module, described as a loaded model is."""

import hashlib
from collections.abc import Mapping

import torch
from torch import Tensor, nn

from repalign.models.loaders.families import Family
from repalign.models.loaders.loaded import LoadedModel, Origin
from repalign.models.structure.seen import Seen
from repalign.models.views.capture import first_tensor
from repalign.models.views.layers import FINAL, LayerMap, Tap, module_names

OWN = Family("own", "image", ("mean", "token", "cls", "last"), final_note="what the module returns")


def describe_own(
    module: nn.Module, inputs: Mapping[str, Tensor], version: str | None = None
) -> LoadedModel:
    """Describe a module by a pass over a batch; an input without a name is the only argument."""
    seen = Seen.of(module, lambda: _call(module, inputs))
    blocks = seen.blocks(module, (len(next(iter(inputs.values()))),))
    kind = type(module)
    files = {"parameters": tensors_sha256(module.state_dict()).hex()}
    if version:
        files["code"] = version
    return LoadedModel(
        module=module,
        family=OWN,
        layers=LayerMap(blocks, Tap(FINAL, "", "returned"), None, module_names(module)),
        origin=Origin(kind.__qualname__, "own", f"{kind.__module__}.{kind.__qualname__}", files),
        call=_call,
    )


def tensors_sha256(tensors: Mapping[str, Tensor]) -> bytes:
    """SHA-256 of tensors with their names, types and shapes."""
    digest = hashlib.sha256()
    for name, tensor in sorted(tensors.items()):
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)} ".encode())
        plain = tensor.detach().cpu().contiguous()
        digest.update(plain.flatten().view(torch.uint8).numpy().tobytes())
    return digest.digest()


def _call(module: nn.Module, inputs: Mapping[str, Tensor]) -> Tensor | None:
    if list(inputs) == [""]:
        return first_tensor(module(inputs[""]))
    return first_tensor(module(**inputs))
