"""A list of models: names of their stores, and one that fails beside others that do not."""

from pathlib import Path
from types import ModuleType

import pytest

from repalign.exceptions import InputError, ModelError
from repalign.extraction.many import extract_in_turn, read_models, settings_of_list
from repalign.extraction.settings import ExtractProgress, ExtractSettings


def test_stores_are_called_after_models_or_as_told(tmp_path: Path) -> None:
    path = tmp_path / "list.txt"
    path.write_text("# pairs\nhf:org/name@step10\n\nfirst=timm:vit_tiny\n  runs/a b/  \n")
    models = read_models(path)
    assert [(each.name, each.model) for each in models] == [
        ("hf-org-name-step10", "hf:org/name@step10"),
        ("first", "timm:vit_tiny"),
        ("runs-a-b", "runs/a b/"),
    ]
    wanted = settings_of_list(models, tmp_path / "stores", ExtractSettings("", "d", tmp_path))
    assert wanted[1].model == "timm:vit_tiny"
    assert wanted[1].output == tmp_path / "stores" / "first.h5"


def test_lists_that_say_nothing_or_the_same_twice_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "list.txt"
    path.write_text("# nothing\n")
    with pytest.raises(InputError, match="no models"):
        read_models(path)
    path.write_text("runs/a\nruns-a\n")
    with pytest.raises(InputError, match=r"two stores .*runs-a\.h5"):
        read_models(path)
    path.write_bytes(b"runs/\xff\n")
    with pytest.raises(InputError, match="UTF-8"):
        read_models(path)
    path.write_bytes(b"#" * (2**24 + 1))
    with pytest.raises(InputError, match="16 MiB"):
        read_models(path)
    with pytest.raises(InputError, match="not a folder"):
        settings_of_list([], path, ExtractSettings("", "d", tmp_path))


def test_a_bug_in_one_does_not_stop_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def extract(settings: ExtractSettings, on_progress: object) -> str:
        return {"good": "done"}[settings.model]

    monkeypatch.setattr("repalign.extraction.run.extract", extract)
    wanted = [ExtractSettings(name, "d", tmp_path / name) for name in ("bad", "good")]
    failed, done = extract_in_turn(wanted)
    assert isinstance(failed, KeyError)
    assert done == "done"


def test_one_that_fails_does_not_stop_the_others(tiny: ModuleType, tmp_path: Path) -> None:
    tiny.save_transformers(tmp_path / "bert", "bert")
    data = tmp_path / "texts.txt"
    data.write_text("\n".join(tiny.TEXTS))
    wanted = [
        ExtractSettings(str(tmp_path / name), str(data), tmp_path / f"{name}.h5")
        for name in ("nothing", "bert")
    ]
    told: list[ExtractProgress] = []
    failed, done = extract_in_turn(wanted, told.append)
    assert isinstance(failed, ModelError | InputError)
    assert not isinstance(done, Exception)
    assert done.is_complete
    assert told[-1].stores == (1, 2)
