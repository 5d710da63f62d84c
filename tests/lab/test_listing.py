"""The list of kinds is complete, and the page in the repository is current."""

import importlib.util
from pathlib import Path

from belated.lab import listing

DOCS = Path(__file__).parents[2] / "docs"


def test_every_kind_is_listed_with_a_line():
    found = list(listing.all_kinds())
    assert len(found) == sum(len(registry.kinds) for registry in listing.SECTIONS.values())
    for _, name, about, _ in found:
        assert about != "No description.", name
        assert "|" not in about.splitlines()[0], name


def test_the_page_is_current():
    spec = importlib.util.spec_from_file_location("docs_kinds", DOCS / "kinds.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    page = (DOCS / "kinds.md").read_text(encoding="utf-8")
    assert page == module.text(), "run: python docs/kinds.py"
