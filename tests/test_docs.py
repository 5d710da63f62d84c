"""The documentation builds without a warning, its code runs, and its references exist."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import belated as bl
from browsing import Browser, needs_browser

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
WRITTEN = sorted(page for page in DOCS.rglob("*.md") if page.parent.name != "_static")
PAGES = [ROOT / "README.md", *WRITTEN]
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
SHOWN = re.compile(r"^```text\n(.*?)^```", re.MULTILINE | re.DOTALL)


def text(path):
    return path.read_text(encoding="utf-8")


def name(page):
    """The name of a page in the id of a test, such as start or algorithms/oppo."""
    return page.relative_to(DOCS if DOCS in page.parents else ROOT).with_suffix("").as_posix()


def run(*command, cwd):
    env = {**os.environ, "MPLBACKEND": "Agg", "PYTHONPATH": str(ROOT)}  # benchmarks are there
    return subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        env=env,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture(scope="module")
def html(tmp_path_factory):
    """The pages as Sphinx builds them; a warning is an error."""
    pytest.importorskip("sphinx")
    place = tmp_path_factory.mktemp("docs")
    built = run(
        *(sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-b", "html"),
        *("-d", place / "trees", DOCS, place / "html"),
        cwd=place,
    )
    assert built.returncode == 0, built.stderr
    return place / "html"


@pytest.mark.long
def test_the_documentation_builds_without_a_warning(html):
    pages = {path.relative_to(html).with_suffix("") for path in html.rglob("*.html")}
    assert {path.relative_to(DOCS).with_suffix("") for path in WRITTEN} <= pages
    api = text(html / "api.html")
    for public in bl.__all__:
        assert isinstance(getattr(bl, public), ModuleType) or f"belated.{public}" in api, public
    for word in ("begin_episode", "total_delay", "heavy_tailed", "from_gymnasium", "LateRewards"):
        assert word in api


@pytest.mark.long
def test_pages_hold_their_formulas_and_load_nothing_from_elsewhere(html):
    formulas = 0
    for page in html.rglob("*.html"):
        words = text(page)
        assert not re.findall(r"<(?:script|link|img)[^>]+(?:src|href)=\"(?:https?:)?//", words), (
            page
        )
        formulas += words.count("<math")
    assert formulas > 1000


@pytest.mark.long
def test_pages_bring_their_own_font_for_mathematics(html):
    css = text(html / "_static" / "style.css")
    (file,) = re.findall(r'@font-face [^}]*"STIX Two Math"[^}]*url\("([^"]+)"\)', css)
    assert re.search(r'^math \{ font-family: "STIX Two Math"', css, re.MULTILINE)
    tables = (html / "_static" / file).read_bytes()[12:512]
    assert b"MATH" in tables  # OpenType's table of the sizes of mathematics


def test_the_first_displays_of_the_derivation_fit_their_column():
    """A display of 46 em holds about 90 letters; names of commands and braces take no room."""
    first = re.findall(r"^\$\$\n(.*?)^\$\$", text(DOCS / "derivation.md"), re.MULTILINE | re.DOTALL)
    for display in first[:5]:
        lines = re.sub(r"\\q?quad", "    ", re.sub(r"\\(?!q)[a-zA-Z]+|[{}^_\\]", "", display))
        assert len(" ".join(lines.split())) < 90, display


MEASURE = r"""(() => {
  const seen = [...document.querySelectorAll("math")].map(m => m.getBoundingClientRect());
  const fractions = [...document.querySelectorAll("mfrac")];
  const stacked = fractions.filter(f => f.getBoundingClientRect().height > 4 &&
    f.children[0].getBoundingClientRect().bottom <= f.children[1].getBoundingClientRect().top + 2);
  document.querySelectorAll("pre, code, annotation").forEach(e => e.remove());
  return {formulas: seen.length, shown: seen.filter(b => b.width > 2 && b.height > 2).length,
    flat: fractions.length - stacked.length,
    tex: document.body.innerText.match(/\\[a-z]{2,}|\$[^ $]+\$/g) || []};
})()"""


@needs_browser
@pytest.mark.long
def test_a_browser_without_a_network_shows_typeset_formulas(html, tmp_path):
    """On every page every formula has a size and every fraction is stacked; no TeX is left."""
    pages, with_formulas, wrong = sorted(html.rglob("*.html")), 0, {}
    with Browser(tmp_path, "--host-resolver-rules=MAP * ~NOTFOUND") as browser:
        browser.look()
        for page in pages:
            browser.open(page.as_uri(), "document.URL != 'about:blank' && document.fonts.status "
                         "== 'loaded' && document.readyState == 'complete'")  # fmt: skip
            found = browser.run(MEASURE)
            if found["shown"] != found["formulas"] or found["flat"] or found["tex"]:
                wrong[page.name] = found
            with_formulas += found["formulas"] > 0
    assert not wrong
    assert with_formulas == sum("<math" in text(page) for page in pages) > 20


@pytest.mark.long
@pytest.mark.parametrize("page", [p for p in PAGES[1:] if BLOCK.search(text(p))], ids=name)
def test_code_runs(page, tmp_path):
    """All blocks of a page run in their order, in one program, from another directory.

    The program prints the output that the page shows, up to line breaks.
    """
    program = tmp_path / f"page_{page.stem}.py"
    program.write_text("\n".join(BLOCK.findall(text(page))), encoding="utf-8")
    done = run(sys.executable, "-W", "error", program, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    for shown in SHOWN.findall(text(page)):
        assert " ".join(shown.split()) in " ".join(done.stdout.split())


@pytest.mark.long
@pytest.mark.parametrize("program", sorted(DOCS.glob("proof_*.py")), ids=name)
def test_proofs_hold_with_numbers(program, tmp_path):
    done = run(sys.executable, "-W", "error", program, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("bound") >= 2


@pytest.mark.long
@pytest.mark.parametrize("file", sorted((ROOT / "examples" / "lab").glob("*.toml")), ids=name)
def test_the_files_of_the_lab_can_be_run(file, tmp_path):
    """From another directory, with the functions of mine.py in it."""
    shutil.copy(file.with_name("mine.py"), tmp_path)
    command = ("belated", "run", file, "--seeds", 6, "--episodes", 20, "--out", "out")
    done = run(sys.executable, "-m", *command, cwd=tmp_path)
    assert done.returncode == 0, done.stderr


def test_the_start_is_short():
    """At most ten lines on the page, and fifteen in the README with its simulated customers."""
    for page, most in ((ROOT / "README.md", 15), (DOCS / "start.md", 10)):
        first = BLOCK.findall(text(page))[0]
        lines = [line for line in first.splitlines() if line and not line.startswith("import ")]
        assert len(lines) <= most


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


ENTRY = re.compile(r"^@\w+\{(\w+),\n(.*?)^\}", re.MULTILINE | re.DOTALL)


def test_every_reference_is_whole_and_cited():
    entries = dict(ENTRY.findall(text(DOCS / "references.bib")))
    for key, entry in entries.items():
        assert all(re.search(rf"^ *{field} *= *\{{", entry, re.MULTILINE) for field in
                   ("author", "title", "year")), key  # fmt: skip
        assert any(f"`{key}`" in text(page) for page in WRITTEN), key


@pytest.mark.parametrize("page", sorted((DOCS / "algorithms").glob("[!i]*.md")), ids=name)
def test_every_algorithm_page_says_what_to_cite(page):
    entries = dict(ENTRY.findall(text(DOCS / "references.bib")))
    assert any(f"`{key}`" in text(page) for key in entries) or "```bibtex" in text(page)


def test_every_public_module_is_in_the_reference_and_every_example_on_its_page():
    reference = text(DOCS / "api.md")
    assert ".. automodule:: belated\n   :members:\n" in reference  # all names at the top
    for public in bl.__all__:
        if isinstance(getattr(bl, public), ModuleType):
            assert re.search(rf"belated\.{public}\b", reference), public
    for example in (ROOT / "examples").glob("*.py"):
        assert example.stem == "drawing" or f"examples/{example.name}" in text(DOCS / "examples.md")
