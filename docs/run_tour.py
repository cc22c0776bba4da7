"""Run the notebook `tour.ipynb` and keep its outputs in it: `python docs/run_tour.py`."""

import sys
import tempfile
from pathlib import Path

import nbformat
from nbclient import NotebookClient

NOTEBOOK = Path(__file__).with_name("tour.ipynb")
# Far more than it takes; a cell that hangs is told by its name.
SECONDS_A_CELL = 300


def run(notebook: nbformat.NotebookNode, folder: str | Path) -> nbformat.NotebookNode:
    """Run every cell in an empty folder; an exception of a cell is raised."""
    client = NotebookClient(
        notebook,
        timeout=SECONDS_A_CELL,
        kernel_name="python3",
        resources={"metadata": {"path": str(folder)}},
        record_timing=False,
        coalesce_streams=True,
    )
    client.execute()
    # The version of the Python that ran it is no part of the page.
    notebook.metadata["language_info"] = {"name": "python"}
    return notebook


def kinds(notebook: nbformat.NotebookNode) -> list[list[str]]:
    """Return what each cell gave, in kind: streams by their names, others by their forms."""
    return [
        [
            output.get("name") or "+".join(sorted(output.get("data", {"error": ""})))
            for output in cell.outputs
        ]
        for cell in notebook.cells
        if cell.cell_type == "code"
    ]


def main() -> None:
    """Run it and write it back."""
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    with tempfile.TemporaryDirectory() as folder:
        nbformat.write(run(notebook, folder), NOTEBOOK)
    size = NOTEBOOK.stat().st_size
    sys.stdout.write(f"wrote {NOTEBOOK.name} ({size // 1024} kB)\n")


if __name__ == "__main__":
    main()
