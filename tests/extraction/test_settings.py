"""What an extraction may be told, from Python and from the command line alike."""

from pathlib import Path
from typing import Any

import pytest

from repalign.exceptions import InputError
from repalign.extraction.settings import ExtractSettings, ViewSettings


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"dtype": "f32"}, "dtype: got 'f32', expected one of"),
        ({"store_dtype": "half"}, "got 'half'"),
        ({"image_backend": "cv2"}, "got 'cv2'"),
        ({"pools": ("middle",)}, "pools: got middle"),
        ({"pools": "mean"}, "pools: got 'mean'"),
        ({"limit": 0}, "limit: got 0"),
        ({"workers": True}, "workers: got True"),
        ({"seed": -1}, "seed: got -1"),
    ],
)
def test_a_value_that_is_not_allowed_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        ExtractSettings("m", "d", Path("o.h5"), **changes)


def test_a_view_is_told_in_the_same_words_everywhere() -> None:
    assert ViewSettings(layers=("final", "-2"), pools=("mean",)).preprocess is None
    assert issubclass(ExtractSettings, ViewSettings)
