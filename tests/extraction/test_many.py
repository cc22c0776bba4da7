"""A list of models: names of their stores, and one that fails beside others that do not."""

from pathlib import Path
from types import ModuleType

import pytest

from repalign.exceptions import InputError, ModelError
from repalign.extraction.run import extract_in_turn
from repalign.extraction.settings import ExtractProgress, ExtractSettings, settings_of_list


def list_of(path: Path) -> list[ExtractSettings]:
    return settings_of_list(path, path.parent / "stores", ExtractSettings("", "d", path))


def test_stores_are_called_after_models_or_as_told(tmp_path: Path) -> None:
    path = tmp_path / "list.txt"
    path.write_text("# pairs\nhf:org/name@step10\n\nfirst=timm:vit_tiny\n  runs/a b/  \n")
    assert [(settings.model, settings.output) for settings in list_of(path)] == [
        ("hf:org/name@step10", tmp_path / "stores" / "hf-org-name-step10.h5"),
        ("timm:vit_tiny", tmp_path / "stores" / "first.h5"),
        ("runs/a b/", tmp_path / "stores" / "runs-a-b.h5"),
    ]


@pytest.mark.parametrize(
    ("content", "word"),
    [
        (b"# nothing\n", "no models"),
        (b"runs/a\nruns-a\n", r"runs-a\.h5"),
        (b"runs/\xff\n", "UTF-8"),
        (b"#" * (2**24 + 1), "16 MiB"),
    ],
    ids=["empty", "twice", "bytes", "large"],
)
def test_lists_that_cannot_be_used_are_refused(tmp_path: Path, content: bytes, word: str) -> None:
    path = tmp_path / "list.txt"
    path.write_bytes(content)
    with pytest.raises(InputError, match=word):
        list_of(path)
    with pytest.raises(InputError, match="not a folder"):
        settings_of_list(path, path, ExtractSettings("", "d", tmp_path))


def test_a_bug_in_one_does_not_stop_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def extract(settings: ExtractSettings, *, on_progress: object) -> str:
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
