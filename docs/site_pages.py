"""What `mkdocs build` does beyond its configuration: pages that do not lie in this folder.

The README, the changelog and the pages for contributors stand where readers of a repository look
for them, and link to each other there. Here they become pages of the site, and every link between
files of the repository becomes one between pages. The notebook becomes a page with its outputs.
"""

import base64
import html
import json
import posixpath
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[1]
PAGES = {
    "README.md": "index.md",
    "CHANGELOG.md": "changelog.md",
    "ARCHITECTURE.md": "architecture.md",
    "CONTRIBUTING.md": "contributing.md",
    "benchmarks/README.md": "benchmarks.md",
    "docs/tour.ipynb": "tour.md",
}
_FILES = {page: file for file, page in PAGES.items()}
_LINK = re.compile(r"(\]\()([^)\s#:]+)([^)]*\))")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that lie elsewhere, and the pictures of the notebook."""
    for name, page in PAGES.items():
        text = (ROOT / name).read_text(encoding="utf-8")
        if name.endswith(".ipynb"):
            files.remove(files.src_uris[Path(name).name])
            text, pictures = notebook_page(json.loads(text), Path(page).stem)
            for picture, content in pictures.items():
                files.append(File.generated(config, picture, content=content))
        files.append(File.generated(config, page, content=text))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Turn links between files of the repository into links between pages."""
    here = posixpath.dirname(_FILES.get(page.file.src_uri, f"docs/{page.file.src_uri}"))
    return _LINK.sub(lambda link: link[1] + page_of(link[2], here) + link[3], markdown)


def page_of(target: str, here: str) -> str:
    """Return the address on the site of a file that a page in the folder ``here`` links to."""
    path = posixpath.normpath(posixpath.join(here, target))
    return PAGES.get(path, path.removeprefix("docs/") if path.startswith("docs/") else target)


def notebook_page(notebook: dict[str, Any], name: str) -> tuple[str, dict[str, bytes]]:
    """Return a notebook as Markdown, and its pictures by their file names."""
    parts: list[str] = []
    pictures: dict[str, bytes] = {}
    for cell in notebook["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            parts.append(source)
            continue
        parts.append(f"```python\n{source}\n```")
        for output in cell["outputs"]:
            parts.extend(_shown(output, name, pictures))
    return "\n\n".join(parts) + "\n", pictures


def _shown(output: dict[str, Any], name: str, pictures: dict[str, bytes]) -> Iterator[str]:
    """Yield what a page shows of one output of a cell: the richest of its forms."""
    forms = output.get("data", {})
    if "image/png" in forms:
        picture = f"{name}-{len(pictures) + 1}.png"
        pictures[picture] = base64.b64decode(forms["image/png"])
        yield f"![Output of the cell above]({picture})"
    elif "text/html" in forms:
        # A block of HTML ends at the first empty line.
        lines = "".join(forms["text/html"]).splitlines()
        yield '<div class="output">' + "\n".join(line for line in lines if line.strip()) + "</div>"
    else:
        text = "".join(output.get("text", forms.get("text/plain", "")))
        yield f'<pre class="output">{html.escape(text.rstrip())}</pre>'
