"""What is refused before or while loading: types, code, pickles, wrong or missing weights."""

import argparse
import json
import os
import pickle
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import timm
import torch
import torchvision
import transformers
from safetensors.torch import load_file, save_file

from repalign.exceptions import InputError, ModelError
from repalign.models.capture import Batch, encode, make_views, probe_shapes
from repalign.models.checkpoints import is_head, read_state_dict
from repalign.models.load import load_encoder


@pytest.fixture
def neox(tiny: ModuleType, tmp_path: Path) -> Path:
    return tiny.save_transformers(tmp_path / "neox", "gpt_neox")


def edit_config(directory: Path, **changes: Any) -> None:
    path = directory / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def edit_weights(directory: Path, edit: Callable[[dict[str, torch.Tensor]], object]) -> None:
    path = directory / "model.safetensors"
    state = load_file(path)
    edit(state)
    save_file(state, path, metadata={"format": "pt"})


def test_weights_are_float32_whatever_the_checkpoint_says(neox: Path) -> None:
    edit_config(neox, dtype="float16")
    edit_weights(neox, lambda s: s.update({k: v.half() for k, v in list(s.items())}))
    model = load_encoder(str(neox))
    assert {p.dtype for p in model.module.parameters()} == {torch.float32}
    assert not model.module.training
    assert set(model.origin.files) == {"config.json", "model.safetensors"}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model_type": "mambo"}, "model type 'mambo'"),
        ({"model_type": ["gpt_neox"]}, r"model type \['gpt_neox'\]"),
        ({"model_type": "dpt", "backbone_config": {"model_type": "bit"}}, "'backbone_config'"),
        ({"vision_config": {"backbone": "resnet18"}}, "field 'backbone'"),
        ({"heads": [{"auto_map": None}]}, "field 'auto_map'"),
        ({"model_type": None}, "model type None"),
        ({"auto_map": {"AutoModel": "x.Y"}}, "field 'auto_map'"),
        ({"_attn_implementation_internal": "a/b"}, "'_attn_implementation_internal'"),
        ({"quantization_config": {}}, "'quantization_config'"),
        ({"model_type": "timm_wrapper", "architecture": "local-dir:../x"}, "architecture"),
        ({"model_type": "timm_wrapper", "architecture": "hf-hub:a/b"}, "architecture"),
        ({"model_args": {"checkpoint_path": "../x.safetensors"}}, "'checkpoint_path'"),
    ],
)
def test_a_config_is_checked_before_anything_loads(
    neox: Path, changes: dict[str, Any], message: str
) -> None:
    edit_config(neox, **changes)
    (neox / "model.safetensors").write_bytes(b"never read")
    with pytest.raises(ModelError, match=message):
        load_encoder(str(neox))


@pytest.mark.parametrize("text", ["[1]", "{", "[" * 100_000])
def test_a_config_that_is_no_object_is_refused(neox: Path, text: str) -> None:
    (neox / "config.json").write_text(text)
    with pytest.raises(ModelError, match=r"config\.json"):
        load_encoder(str(neox))


def test_a_huge_config_is_refused(neox: Path) -> None:
    edit_config(neox, padding="x" * 2**20)
    with pytest.raises(ModelError, match="larger than 1 MiB"):
        load_encoder(str(neox))


def test_missing_encoder_weights_are_named(neox: Path) -> None:
    edit_weights(neox, lambda s: s.pop("layers.1.mlp.dense_h_to_4h.bias"))
    with pytest.raises(ModelError, match=r"lacks .*layers.1.mlp.dense_h_to_4h.bias"):
        load_encoder(str(neox))


def test_unexpected_encoder_weights_are_named(neox: Path) -> None:
    edit_weights(neox, lambda s: s.update({"layers.7.extra.weight": torch.zeros(2)}))
    with pytest.raises(ModelError, match=r"unexpected .*layers.7.extra.weight"):
        load_encoder(str(neox))


def test_weights_of_another_shape_are_named(neox: Path) -> None:
    edit_weights(neox, lambda s: s.update({"final_layer_norm.weight": torch.zeros(5)}))
    with pytest.raises(ModelError, match=r"final_layer_norm.weight .*\(5,\)"):
        load_encoder(str(neox))


def test_heads_beside_the_encoder_are_let_through(neox: Path) -> None:
    edit_weights(neox, lambda s: s.update({"embed_out.weight": torch.zeros(2, 2)}))
    load_encoder(str(neox))
    assert is_head("decoder_blocks.0.norm1.weight")
    assert not is_head("decoders.0.weight")
    assert not is_head("headache.weight")


WITH_HEADS = {
    "GPTNeoXForCausalLM": ("gpt_neox", "gpt_neox.layers.0.attention.rotary_emb.inv_freq"),
    "GPT2LMHeadModel": ("gpt2", "transformer.h.0.attn.bias"),
    "LlamaForCausalLM": ("llama", "model.layers.0.self_attn.rotary_emb.inv_freq"),
    "BertForPreTraining": ("bert", "bert.embeddings.position_ids"),
    "RobertaForMaskedLM": ("roberta", "roberta.embeddings.position_ids"),
    "DistilBertForMaskedLM": ("distilbert", "vocab_layer_norm.extra"),
    "ViTForImageClassification": ("vit", "classifier.extra"),
    "ViTMAEForPreTraining": ("vit_mae", "decoder.extra"),
    "ResNetForImageClassification": ("resnet", "classifier.2.weight"),
}


@pytest.mark.parametrize("class_name", WITH_HEADS)
def test_checkpoints_of_whole_models_give_their_encoder(
    tiny: ModuleType, tmp_path: Path, class_name: str
) -> None:
    family, old_key = WITH_HEADS[class_name]
    whole = getattr(transformers, class_name)(tiny.build_transformers(family).config)
    tiny.shake(whole, 4)
    whole.save_pretrained(tmp_path)
    edit_weights(tmp_path, lambda state: state.update({old_key: torch.zeros(1, 1, 2, 2)}))
    encoder = load_encoder(str(tmp_path)).module.state_dict()
    expected = getattr(whole, whole.base_model_prefix).state_dict()
    assert len(encoder) > 10
    assert all(torch.equal(encoder[key], expected[key]) for key in encoder)


def test_a_directory_without_weights_is_refused(neox: Path) -> None:
    (neox / "model.safetensors").unlink()
    with pytest.raises(ModelError, match=r"no weights; .*model.safe"):
        load_encoder(str(neox))


def test_damaged_safetensors_are_refused(neox: Path) -> None:
    path = neox / "model.safetensors"
    path.write_bytes(path.read_bytes()[:200])
    with pytest.raises(ModelError, match="cannot be loaded"):
        load_encoder(str(neox))


def test_pickled_weights_load_as_weights_only(neox: Path) -> None:
    state = load_file(neox / "model.safetensors")
    expected = load_encoder(str(neox)).module.state_dict()
    (neox / "model.safetensors").unlink()
    torch.save(state, neox / "pytorch_model.bin")
    loaded = load_encoder(str(neox)).module.state_dict()
    assert all(torch.equal(loaded[key], expected[key]) for key in expected)


class Evil:
    """Runs a command when it is unpickled in the ordinary way."""

    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self) -> Any:
        return os.system, (f"touch {self.marker}",)


def test_a_pickle_that_runs_code_is_refused_and_does_not_run(neox: Path, tmp_path: Path) -> None:
    marker = tmp_path / "ran"
    (neox / "model.safetensors").unlink()
    torch.save({"x": Evil(marker)}, neox / "pytorch_model.bin")
    torch.save({"model": {"x": Evil(marker)}}, tmp_path / "evil.pth")
    with pytest.raises(ModelError):
        load_encoder(str(neox))
    with pytest.raises(ModelError, match=r"evil.pth .*safetensors") as refused:
        load_encoder(f"mae:{tmp_path / 'evil.pth'}")
    assert "Re-running" not in str(refused.value), "advice to run it all the same"
    assert not marker.exists()
    pickle.loads(pickle.dumps(Evil(marker)))
    assert marker.exists(), "the attack must work where nothing stops it"


def test_training_arguments_beside_the_weights_are_let_through(tmp_path: Path) -> None:
    path = tmp_path / "c.pth"
    torch.save({"args": argparse.Namespace(lr=1.0), "model": {"module.w": torch.ones(1)}}, path)
    assert list(read_state_dict(path)) == ["w"]


def test_files_without_tensors_are_refused(tmp_path: Path) -> None:
    torch.save([1, 2], tmp_path / "list.pth")
    torch.save({"a": 1}, tmp_path / "none.pth")
    (tmp_path / "x.safetensors").write_bytes(b"abc")
    with pytest.raises(ModelError, match="a list, "):
        read_state_dict(tmp_path / "list.pth")
    with pytest.raises(ModelError, match="no tensors"):
        read_state_dict(tmp_path / "none.pth")
    with pytest.raises(ModelError, match="readable safetensors"):
        read_state_dict(tmp_path / "x.safetensors")


def test_mae_files_must_be_mae_and_complete(tiny: ModuleType, tmp_path: Path) -> None:
    state = tiny.build_timm("mae").state_dict()
    state["decoder_pred.bias"] = torch.zeros(3)
    torch.save({"model": state}, tmp_path / "good.pth")
    assert load_encoder(str(tmp_path / "good.pth")).origin.loader == "mae"
    del state["blocks.1.attn.qkv.bias"]
    torch.save({"model": state}, tmp_path / "short.pth")
    torch.save({"w": torch.zeros(2)}, tmp_path / "other.pth")
    with pytest.raises(ModelError, match=r"lacks .*blocks.1.attn.qkv.bias"):
        load_encoder(f"mae:{tmp_path / 'short.pth'}")
    with pytest.raises(ModelError, match="MAE encoder"):
        load_encoder(f"mae:{tmp_path / 'other.pth'}")
    with pytest.raises(ModelError, match="architecture"):
        load_encoder(str(tmp_path / "other.pth"))


def test_a_mae_of_unknown_width_is_refused(tiny: ModuleType, tmp_path: Path) -> None:
    torch.save({"model": tiny.build_timm("vit").state_dict()}, tmp_path / "narrow.pth")
    with pytest.raises(ModelError, match=r"32 wide.*: 192"):
        load_encoder(f"mae:{tmp_path / 'narrow.pth'}")


def test_timm_and_torchvision_names_and_weights_are_checked(
    tiny: ModuleType, tmp_path: Path
) -> None:
    torch.save(tiny.build_timm("resnet").state_dict(), tmp_path / "w.pth")
    with pytest.raises(InputError, match="architecture 'resnet18x'"):
        load_encoder("timm:resnet18x")
    with pytest.raises(InputError, match=r"'resnet19'; .*resnet"):
        load_encoder("torchvision:resnet19")
    with pytest.raises(ModelError, match=r"another shape"):
        load_encoder(f"timm:resnet18@{tmp_path / 'w.pth'}")
    (tmp_path / "notes.txt").touch()
    with pytest.raises(InputError, match=r"notes.txt is not a model"):
        load_encoder(str(tmp_path / "notes.txt"))


def test_a_timm_directory_of_an_unknown_kind_is_refused(tiny: ModuleType, tmp_path: Path) -> None:
    directory = tiny.save_timm(tmp_path / "vit", "vit")
    edit_config(directory, architecture="no_such_net")
    with pytest.raises(ModelError, match=r"'no_such_net'.*unknown"):
        load_encoder(str(directory))
    edit_config(directory, architecture="resnet18", model_args={"x": {"nested": 1}})
    with pytest.raises(ModelError, match=r"model_args .* 'x' "):
        load_encoder(str(directory))


@pytest.mark.parametrize("before", ["", "import transformers.utils.hub\n"])
def test_offline_mode_is_honoured_whenever_it_is_asked_for(before: str) -> None:
    code = before + (
        "from repalign.models.checkpoints import prepare_environment\n"
        "prepare_environment(offline=True)\n"
        "from repalign.models.load import load_encoder\n"
        "from repalign.exceptions import ModelError\n"
        "try:\n    load_encoder('hf:no-such/model')\n"
        "except ModelError as error:\n    print(error)\n"
        "from huggingface_hub.constants import is_offline_mode; print(is_offline_mode())"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert re.search("no-such/model: .*cache, .*offline", ran.stdout)
    assert ran.stdout.strip().endswith("True")


CACHED = """
import json
from repalign.models.checkpoints import prepare_environment
prepare_environment(offline=True)
from repalign.models.load import load_encoder
for name in ("hf:org/tiny", "hf:org/tiny@v1", "timm:resnet18.a1_in1k"):
    origin = load_encoder(name).origin
    print(json.dumps([origin.model, origin.revision, origin.commit, origin.class_name]))
"""


def cache_repository(cache: Path, name: str, source: Path, revision: str) -> None:
    """Put files where the hub library looks for a repository it has downloaded."""
    root = cache / ("models--" + name.replace("/", "--"))
    (root / "refs").mkdir(parents=True, exist_ok=True)
    (root / "refs" / revision).write_text(COMMIT)
    shutil.copytree(source, root / "snapshots" / COMMIT, dirs_exist_ok=True)


COMMIT = "0123456789abcdef0123456789abcdef01234567"


def test_cached_repositories_load_offline_with_their_commit(
    neox: Path, tiny: ModuleType, tmp_path: Path
) -> None:
    cache = tmp_path / "cache"
    split_in_shards(neox)
    for revision in ("main", "v1"):
        cache_repository(cache, "org/tiny", neox, revision)
    resnet = tiny.save_timm(tmp_path / "resnet", "resnet")
    cache_repository(cache, "timm/resnet18.a1_in1k", resnet, "main")
    ran = subprocess.run(
        [sys.executable, "-c", CACHED],
        env={**os.environ, "HF_HUB_CACHE": str(cache)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    assert [json.loads(line) for line in ran.stdout.splitlines()] == [
        ["hf:org/tiny", None, COMMIT, "GPTNeoXModel"],
        ["hf:org/tiny", "v1", COMMIT, "GPTNeoXModel"],
        ["timm:resnet18.a1_in1k", None, COMMIT, "resnet18"],
    ]


def split_in_shards(directory: Path) -> None:
    """Turn one safetensors file into two with an index."""
    state = load_file(directory / "model.safetensors")
    (directory / "model.safetensors").unlink()
    places = {}
    for number, names in enumerate((list(state)[::2], list(state)[1::2]), start=1):
        file = f"model-{number:05d}-of-00002.safetensors"
        save_file({name: state[name] for name in names}, directory / file, {"format": "pt"})
        places |= dict.fromkeys(names, file)
    index = {"metadata": {}, "weight_map": places}
    (directory / "model.safetensors.index.json").write_text(json.dumps(index))


def test_all_shards_of_a_checkpoint_are_hashed(neox: Path) -> None:
    split_in_shards(neox)
    assert sorted(load_encoder(str(neox)).origin.files) == [
        "config.json",
        "model-00001-of-00002.safetensors",
        "model-00002-of-00002.safetensors",
        "model.safetensors.index.json",
    ]


@pytest.mark.parametrize("name", ["timm:volo_d1_224", "timm:efficientvim_m1", "timm:mvitv2_tiny"])
def test_timm_models_with_heads_or_stages_of_their_own_load(tmp_path: Path, name: str) -> None:
    whole = timm.create_model(name.removeprefix("timm:"), pretrained=False)
    torch.save(whole.state_dict(), tmp_path / "w.pth")
    model = load_encoder(f"{name}@{tmp_path / 'w.pth'}")
    views = make_views(model, ("final", "0", "1", "-1"))
    shapes = probe_shapes(model, [view.tap for view in views])
    assert len(model.layers.blocks) >= 3
    assert all(shape.dim in (64, 96, 128, 192, 384, 768, 320, 960) for shape in shapes.values())


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("coat_tiny", {"img_size": 64}),  # its library names stages that do not run
        ("pit_xs_224", {"img_size": 64}),  # its stages hand on a pair
        ("crossvit_tiny_240", {}),  # a list
        ("qwen3_vit_88m_enc", {"depth": 2, "embed_dim": 64, "num_heads": 2, "img_size": 64}),
    ],
)
def test_layers_of_unusual_timm_models_are_those_that_run(
    tmp_path: Path, name: str, arguments: dict[str, int]
) -> None:
    side = arguments.get("img_size", 96)
    torch.save(timm.create_model(name, **arguments).state_dict(), tmp_path / "pytorch_model.bin")
    config = {"architecture": name, "model_args": arguments}
    config["pretrained_cfg"] = {"input_size": [3, side, side]}
    (tmp_path / "config.json").write_text(json.dumps(config))
    model = load_encoder(str(tmp_path))
    views = make_views(model, ("final", "0", "1", "-1"))
    shapes = probe_shapes(model, [view.tap for view in views])
    assert len(model.layers.blocks) >= 2
    assert all((shape.positions or 1) * shape.dim > 60 for shape in shapes.values())


def test_a_squeezenet_is_what_enters_its_convolutional_classifier(tmp_path: Path) -> None:
    plain = torchvision.models.squeezenet1_1(weights=None).eval()
    torch.save(plain.state_dict(), tmp_path / "w.pth")
    model = load_encoder(f"torchvision:squeezenet1_1@{tmp_path / 'w.pth'}")
    pixels = torch.randn(2, 3, 64, 64)
    with torch.no_grad():
        expected = plain.features(pixels).mean((2, 3))
    rows = encode(model, make_views(model), Batch({"pixel_values": pixels}))["final"]
    torch.testing.assert_close(rows, expected, atol=1e-5, rtol=1e-5)


def test_a_model_that_computes_its_widths_loads(tmp_path: Path) -> None:
    whole = torchvision.models.regnet_y_400mf(weights=None)
    torch.save(whole.state_dict(), tmp_path / "w.pth")
    module = load_encoder(f"torchvision:regnet_y_400mf@{tmp_path / 'w.pth'}").module
    assert torch.equal(module.state_dict()["fc.weight"], whole.state_dict()["fc.weight"])


def test_a_model_that_looks_at_its_version_loads(tmp_path: Path) -> None:
    whole = torchvision.models.mnasnet0_5(weights=None)
    torch.save(whole.state_dict(), tmp_path / "w.pth")
    module = load_encoder(f"torchvision:mnasnet0_5@{tmp_path / 'w.pth'}").module
    assert torch.equal(
        module.state_dict()["layers.0.weight"], whole.state_dict()["layers.0.weight"]
    )
