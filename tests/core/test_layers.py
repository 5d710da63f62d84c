"""The core knows neither states nor features: it asks the problem."""

import ast
from pathlib import Path

import pytest

import belated
from belated.core import contract

CORE = Path(belated.__file__).parent / "core"
FORBIDDEN = {"S", "states", "state", "feature", "features", "homogeneous", "transitions"}
PROMISED = {
    "contract.py": {"state"},  # an argument of Episode.act and Episode.record
    "delays.py": {"states"},  # what a delay rule of a user may look at
    "tree.py": {"state"},  # the method by which a registered class saves itself
}
FILES = [str(path.relative_to(CORE)) for path in sorted(CORE.rglob("*.py"))]


def identifiers(tree):
    """The names that code defines or uses."""
    for node in ast.walk(tree):
        for field in ("id", "attr", "arg", "name"):
            if isinstance(getattr(node, field, None), str):
                yield getattr(node, field)


@pytest.mark.parametrize("file", FILES)
def test_no_code_of_the_core_names_states_or_features(file):
    text = (CORE / file).read_text(encoding="utf-8")
    found = FORBIDDEN.intersection(identifiers(ast.parse(text)))
    assert found <= PROMISED.get(file, set())
    assert "S, A)" not in text, "the shape of a table belongs to tabular"


def test_a_problem_answers_at_most_eight_questions():
    asked = [name for name in vars(contract.Problem) if not name.startswith("_")]
    assert len(asked) <= 8, asked
