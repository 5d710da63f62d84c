"""The README's code runs as it stands."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
BLOCKS = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)


@pytest.mark.parametrize("block", range(len(BLOCKS)))
@pytest.mark.slow
def test_the_code_of_the_readme_runs(block, tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", BLOCKS[block]],
        check=False, cwd=tmp_path, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    first, last = map(float, re.findall(r"\d+\.\d\d", done.stdout)[-4 if block else 0 :][:2])
    if block == 1:
        best = float(re.findall(r"best policy +(\d+\.\d\d)", done.stdout)[0])
        assert last < best + 0.1 * (first - best)
    else:
        assert last > 1.15 * first


def test_the_readme_names_files_that_exist():
    text = (ROOT / "README.md").read_text()
    for link in re.findall(r"\]\((?!http)([^)]+)\)", text):
        assert (ROOT / link).exists(), link
    assert len(BLOCKS) == 2


def test_the_first_screen_shows_the_engineers_program():
    """The first 48 lines say for whom it is and what it is not, and show a program that learns."""
    lines = (ROOT / "README.md").read_text().splitlines()
    screen = "\n".join(lines[:48])
    for words in ("engineers", "conversion", "robot", "**not** for continuous states", BLOCKS[0]):
        assert words in screen
    assert "silence=0.0" in BLOCKS[0]
    assert len(lines) <= 150
    assert len([line for line in BLOCKS[0].splitlines() if line]) <= 15


def test_the_demo_shows_the_engineers_case_first():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    recipe = makefile.split("\ndemo:")[1].split("\n\n")[0]
    assert 0 < recipe.index("examples/mailer.py") < recipe.index("belated run demo")
