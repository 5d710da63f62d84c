"""Every notebook among the examples runs from its first cell to its last, in another directory."""

import json
from pathlib import Path

import pytest

from limits import LIMIT

EXAMPLES = Path(__file__).parent.parent / "examples"
NOTEBOOKS = sorted(EXAMPLES.glob("*.ipynb"))
SHOWN = ("mails",)
"""Notebooks that are kept with their outputs, to be read without running them."""


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
@pytest.mark.long
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")
def test_a_notebook_runs(path, tmp_path, monkeypatch):
    nbformat, nbclient = (pytest.importorskip(name) for name in ("nbformat", "nbclient"))
    monkeypatch.setenv("MPLBACKEND", "Agg")
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    stored = printed(notebook.cells)
    client = nbclient.NotebookClient(
        notebook,
        timeout=LIMIT,
        resources={"metadata": {"path": str(tmp_path)}},
        coalesce_streams=True,
    )
    client.execute()
    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            assert output.get("name") != "stderr", output["text"]
    if path.stem in SHOWN:
        assert printed(notebook.cells) == stored


def printed(cells):
    """What the cells have printed."""
    outputs = [output for cell in cells for output in cell.get("outputs", [])]
    return ["".join(output["text"]) for output in outputs if "text" in output]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_kept_without_its_outputs_unless_it_is_to_be_read(path):
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    if path.stem in SHOWN:
        assert len(printed(cells)) >= 3
        assert path.stat().st_size < 100_000
        return
    for cell in cells:
        assert not cell.get("outputs"), cell["source"]
