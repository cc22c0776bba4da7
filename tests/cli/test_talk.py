"""What is said on stderr."""

import pytest

from repalign.cli.talk import Talk

WIDTHS = [[f"widths differ (6 and {width}): cut", f"{name}: by order"] for width, name in
          ((4, "a.h5"), (4, "b.h5"), (3, "c.h5"), (2, "d.h5"))]  # fmt: skip
NAMES = ["a.h5", "b.h5", "c.h5", "d.h5"]


def test_warnings_of_many_pairs_that_differ_in_names_and_numbers_are_one_line(
    capsys: pytest.CaptureFixture[str],
) -> None:
    Talk().warn_of_pairs([*WIDTHS, ["of its own"]], NAMES)
    assert capsys.readouterr().err.splitlines() == [
        "warning: 4 pairs, of the first: widths differ (6 and 4): cut (--verbose tells all)",
        "warning: 4 pairs, of the first: a.h5: by order (--verbose tells all)",
        "warning: of its own",
    ]


def test_few_warnings_are_all_told_once_and_verbose_tells_all(
    capsys: pytest.CaptureFixture[str],
) -> None:
    Talk().warn_of_pairs(WIDTHS[:2], NAMES)
    told = ["widths differ (6 and 4): cut", "a.h5: by order", "b.h5: by order"]
    assert capsys.readouterr().err.splitlines() == [f"warning: {text}" for text in told]
    Talk(verbose=True).warn_of_pairs(WIDTHS, NAMES)
    assert len(capsys.readouterr().err.splitlines()) == 7
