import re
import tomllib
from pathlib import Path

import repalign

ROOT = Path(__file__).parents[1]


def test_the_version_is_one() -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert repalign.__version__ == version
    assert f"\nversion: {version}\n" in (ROOT / "CITATION.cff").read_text()


def test_the_newest_release_of_the_changelog_is_not_newer_than_the_version() -> None:
    text = (ROOT / "CHANGELOG.md").read_text()
    headings = re.findall(r"^## (.+)$", text, flags=re.MULTILINE)
    assert headings[0] == "Unreleased" or headings[0].startswith(repalign.__version__)
    for heading in headings[1:2]:
        assert heading.startswith(repalign.__version__)
