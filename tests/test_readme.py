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
    if block == 1:
        first, last = map(float, re.findall(r"\d+\.\d\d", done.stdout)[:2])
        best = float(re.findall(r"best policy +(\d+\.\d\d)", done.stdout)[0])
        assert last < best + 0.1 * (first - best)
    else:
        first, last = map(int, re.findall(r"(\d+)%", done.stdout))
        assert last > 30 > first


def test_the_readme_names_files_that_exist():
    text = (ROOT / "README.md").read_text()
    for link in re.findall(r"\]\((?!http)([^)]+)\)", text):
        assert (ROOT / link).exists(), link
    assert len(BLOCKS) == 2


def test_the_first_screen_shows_the_engineers_program():
    """A screen is 45 lines: for whom it is, what it is not, and a program that learns."""
    screen = "\n".join((ROOT / "README.md").read_text().splitlines()[:45])
    for words in ("engineers", "conversion", "robot", "**not** for features", BLOCKS[0]):
        assert words in screen
    assert "Inbox" in BLOCKS[0]
