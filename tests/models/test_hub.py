"""The hub: what happens where it cannot be reached."""

import pytest

from repalign.exceptions import ModelError
from repalign.models.checkpoints import fetch_repository


def test_a_hub_that_cannot_be_reached_is_asked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    def wait(seconds: float) -> None:
        raise AssertionError(f"waits {seconds} s to try again")

    for name in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    # nothing listens there
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setattr("time.sleep", wait)
    with pytest.raises(ModelError, match="network"):
        fetch_repository("no-such/repository", None)
