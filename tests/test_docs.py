"""The documentation builds without a warning, its code runs, and what it refers to exists."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import belated as bl

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
WRITTEN = sorted(page for page in DOCS.rglob("*.md") if page.parent.name != "_static")
PAGES = [ROOT / "README.md", *WRITTEN]
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
SHOWN = re.compile(r"^```text\n(.*?)^```", re.MULTILINE | re.DOTALL)


def text(path):
    return path.read_text(encoding="utf-8")


def name(page):
    """The page as a test is called: start, algorithms/oppo."""
    return page.relative_to(DOCS if DOCS in page.parents else ROOT).with_suffix("").as_posix()


def run(*command, cwd):
    env = {**os.environ, "MPLBACKEND": "Agg"}
    return subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        env=env,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.long
def test_the_documentation_builds_without_a_warning(tmp_path):
    built = run(
        *(sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-b", "html"),
        *("-d", tmp_path / "trees", DOCS, tmp_path / "html"),
        cwd=tmp_path,
    )
    assert built.returncode == 0, built.stderr
    html = tmp_path / "html"
    pages = {path.relative_to(html).with_suffix("") for path in html.rglob("*.html")}
    assert {path.relative_to(DOCS).with_suffix("") for path in WRITTEN} <= pages
    api = text(tmp_path / "html" / "api.html")
    for word in ("begin_episode", "total_delay", "heavy_tailed", "from_gymnasium", "late_rewards"):
        assert word in api


@pytest.mark.long
@pytest.mark.parametrize("page", [p for p in PAGES[1:] if BLOCK.search(text(p))], ids=name)
def test_code_runs(page, tmp_path):
    """All blocks of a page in their order, in one program, from another directory.

    What a page shows as printed, it prints, up to line breaks.
    """
    program = tmp_path / f"page_{page.stem}.py"
    program.write_text("\n".join(BLOCK.findall(text(page))), encoding="utf-8")
    done = run(sys.executable, "-W", "error", program, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    for shown in SHOWN.findall(text(page)):  # what the page says that it prints
        assert " ".join(shown.split()) in " ".join(done.stdout.split())


@pytest.mark.long
def test_the_files_of_the_lab_can_be_run(tmp_path):
    page = text(DOCS / "lab.md")
    (tmp_path / "mine.py").write_text(BLOCK.findall(page)[0], encoding="utf-8")
    files = re.findall(r"^```toml\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    assert len(files) == 3
    for file in files:
        (tmp_path / "my.toml").write_text(file, encoding="utf-8")
        command = ("belated", "run", "my.toml", "--seeds", 1, "--episodes", 20, "--out", "out")
        done = run(sys.executable, "-m", *command, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        shutil.rmtree(tmp_path / "out")


def test_the_start_is_ten_lines():
    for page in (ROOT / "README.md", DOCS / "start.md"):
        first = BLOCK.findall(text(page))[0]
        lines = [line for line in first.splitlines() if line and not line.startswith("import ")]
        assert len(lines) <= 10


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_what_is_referred_to_exists(page):
    words = text(page)
    for file, test in re.findall(r"`((?:tests|benchmarks)/[\w/]+\.py)(?:::(\w+))?`", words):
        assert (ROOT / file).exists(), file
        assert not test or f"def {test}(" in text(ROOT / file), f"{file}::{test}"
    for file in re.findall(r"`(examples/\w+\.py)`", words):
        assert (ROOT / file).exists(), file
    for attribute in re.findall(r"`bl\.(\w+)", words):
        assert hasattr(bl, attribute), f"bl.{attribute}"


def test_every_error_has_its_note():
    rows = re.findall(r"^\| E(\d+) \|(.*)$", text(DOCS / "notes.md"), re.MULTILINE)
    assert sorted(int(number) for number, _ in rows) == list(range(1, 40))
    for number, row in rows:
        assert "tests/" in row or "no test" in row, f"E{number}"


def test_every_public_name_is_in_the_reference():
    reference = text(DOCS / "api.md")
    for public in bl.__all__:
        assert re.search(rf"belated\.{public}\b", reference), public
    for example in (ROOT / "examples").glob("*.py"):
        assert example.stem == "drawing" or f"examples/{example.name}" in text(DOCS / "examples.md")
