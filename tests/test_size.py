"""No room of the package grows beyond its budget, measured so that formatting does not matter."""

import ast
from pathlib import Path

import pytest

import belated

ROOT = Path(belated.__file__).parent
BUDGETS = {
    "core": (1850, 41, 6.15),
    "tabular": (4814, 80, 6.35),
    "linear": (1591, 17, 7.25),
    "lab": (1718, 18, 7.49),
    "service": (2509, 34, 6.06),
    "config": (310, 5, 6.24),
    "stale and gymnasium": (430, 7, 6.4),
    "top": (753, 4, 5.84),
    "evaluation": (442, 6, 8.36),
}
"""Statements and classes that a room may have, and its expressions per statement at the start.

The density may rise by a tenth. A row is lowered whenever its room has become smaller.
"""


def room(path):
    """The room of a file: its folder; the client counts with service."""
    first = path.relative_to(ROOT).parts[0]
    if first in ("stale", "gymnasium"):
        return "stale and gymnasium"
    return "service" if first == "client.py" else first if first in BUDGETS else "top"


def counted(path):
    """Statements without docstrings, classes and expressions of a file."""
    statements = classes = expressions = 0
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        text = (
            isinstance(node, ast.Expr)
            and isinstance(node.value, ast.Constant)
            and isinstance(node.value.value, str)
        )
        statements += isinstance(node, ast.stmt) and not text
        classes += isinstance(node, ast.ClassDef)
        expressions += isinstance(node, ast.expr)
    return statements, classes, expressions


@pytest.fixture(scope="module")
def sizes():
    found = {name: [0, 0, 0] for name in BUDGETS}
    for path in ROOT.rglob("*.py"):
        total = found[room(path)]
        total[:] = [a + b for a, b in zip(total, counted(path), strict=True)]
    return found


@pytest.mark.parametrize("name", BUDGETS)
def test_a_room_keeps_to_its_budget(name, sizes):
    statements, classes, density = BUDGETS[name]
    found = sizes[name]
    assert found[0] <= statements, f"{name} has {found[0]} statements"
    assert found[1] <= classes, f"{name} has {found[1]} classes"
    assert found[2] / found[0] <= 1.1 * density, f"{name} is dense: {found[2] / found[0]:.2f}"
