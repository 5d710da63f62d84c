"""Figures of every kind: the fonts of their PDF files, and how a browser shows them."""

import json
import re
import shutil
import subprocess

import numpy as np
import pytest
from matplotlib import colors, image

from belated.lab import Case, Experiment, Learner, Results, part, run
from belated.lab.plot import COLOURS, figures
from browsing import needs_browser, pictured
from lab.small import TINY

RATES = (0.01, 0.1, 1.0)
FOUR = tuple(
    Learner(
        f"Delayed OPPO, rate {rate:g}", part("oppo", update=part("softmax", learning_rate=rate))
    )
    for rate in (*RATES, 10.0)
)
MANY = TINY.agents + tuple(
    Learner(
        f"Pipeline with a long name, largest delay {d}",
        part("pipeline", agent="oppo", max_delay=d),
    )
    for d in range(1, 7)
)
CHAIN = part("chain", states=3, horizon=4)
LATE = part("geometric", mean=2)


def experiments():
    """One experiment for each way in which results are drawn."""
    common = {"environment": CHAIN, "delays": LATE, "episodes": 25, "seeds": 2}
    delays = tuple(Case(f"mean {m}", delays=part("geometric", mean=m)) for m in (1, 4, 9))
    grid = {**common, "environment": part("gridworld", size=3, horizon=6)}
    yield Experiment(**grid, name="many", agents=MANY)
    yield Experiment(**common, name="few", agents=FOUR)
    yield Experiment(**common, name="scaling", agents=FOUR[:2], cases=delays, against="total_delay")
    yield Experiment(**common, name="scores", agents=FOUR[1:3], cases=delays, against="score")
    path = "agents.delayed-oppo-rate-1.update.learning_rate"
    yield Experiment(**common, name="swept", agents=FOUR[2:], against=path, sweep={path: RATES})


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """The results of each experiment, by name."""
    where = tmp_path_factory.mktemp("looks")
    return {e.name: run(e, where / e.name, engine="here") for e in experiments()}


WANTED = {
    "many": ("cost",),
    "few": ("cost", "regret"),
    "scaling": ("scaling",),
    "scores": ("profile",),
    "swept": ("sweep-agents-delayed-oppo-rate-1-update-learning-rate",),
}


@pytest.fixture(scope="module")
def drawings(results):
    """A figure of every kind, by the name of its experiment and its own name."""
    found = {}
    for name, wanted in WANTED.items():
        made = figures(results[name])
        found |= {f"{name}-{figure}": made.pop(figure)() for figure in wanted}
        assert set(made) <= {"cost", "regret"}, "a kind of figure is not tested"
    return found


def fonts(pdf, tmp_path):
    """The kinds of fonts in a PDF file: from pdffonts, or from its text where that is missing."""
    if shutil.which("pdffonts") is None:
        return set(re.findall(r"/Subtype /(Type3|Type1|CIDFontType\d)", pdf.decode("latin-1")))
    path = tmp_path / "figure.pdf"
    path.write_bytes(pdf)
    done = subprocess.run(["pdffonts", path], capture_output=True, text=True, check=True)
    head, _, *lines = done.stdout.splitlines()
    start, end = head.index("type"), head.index("encoding")
    embedded = head.index("emb")
    assert all(line[embedded : embedded + 3] == "yes" for line in lines), done.stdout
    return {line[start:end].strip() for line in lines}


@pytest.mark.long
def test_fonts_of_every_figure_are_truetype_and_none_is_type_3(drawings, tmp_path):
    for name, drawing in drawings.items():
        found = fonts(drawing.encoded("pdf"), tmp_path)
        assert found <= {"CID TrueType", "CIDFontType2"}, (name, found)
        assert found, name


OVERLAPS = """
const plain = t => !/rotate\\(/.test(t.getAttribute("transform") || "")
    || /rotate\\(-?(0|90|180|270)[ )]/.test(t.getAttribute("transform"));
const found = [], places = [];
for (const figure of document.querySelectorAll("figure")) {
  const outer = figure.querySelector("svg").getBoundingClientRect();
  places.push([figure.id, outer.left, outer.top, outer.right, outer.bottom]);
  const texts = [...figure.querySelectorAll("text")].filter(t => t.textContent.trim() && plain(t))
      .map(t => [t.textContent.trim(), t.getBoundingClientRect()]);
  texts.forEach(([text, a], i) => {
    if (a.left < outer.left - 2 || a.right > outer.right + 2 || a.top < outer.top - 2
        || a.bottom > outer.bottom + 2) found.push([figure.id, text, "outside"]);
    for (const [other, b] of texts.slice(i + 1)) {
      const wide = Math.min(a.right, b.right) - Math.max(a.left, b.left);
      const tall = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
      if (wide > 2 && tall > 4) found.push([figure.id, text, other]);
    }
  });
}
document.querySelector("#found").textContent = JSON.stringify({found, places});
"""


@pytest.mark.long
@needs_browser
def test_a_browser_shows_every_figure_with_its_words_apart(drawings, tmp_path):
    svgs = {name: drawing.encoded("svg").decode() for name, drawing in drawings.items()}
    inline = "".join(
        f'<figure id="{name}">{svg[svg.index("<svg") :]}</figure>' for name, svg in svgs.items()
    )
    page, picture = tmp_path / "all.html", tmp_path / "all.png"
    page.write_text(
        f'<!doctype html><meta charset="utf-8"><body>{inline}'
        f'<pre id="found"></pre><script>{OVERLAPS}</script>'
    )
    dom = pictured(tmp_path, page.as_uri(), picture, 1100, 6000)
    told = json.loads(re.search(r'<pre id="found">([^<]*)<', dom)[1].replace("&gt;", ">"))
    assert told["found"] == []
    pixels = image.imread(picture)[..., :3]
    assert [name for name, *_ in told["places"]] == list(svgs)
    for name, *place in told["places"]:
        left, top, right, bottom = map(int, place)
        assert bottom <= len(pixels), "the picture must be taller"
        inked = np.mean(pixels[top:bottom, left:right].min(axis=2) < 0.9)
        assert 0.01 < inked < 0.9, name
    words = " ".join(re.findall(r">([^<>]+)</text>", svgs["many-cost"]))
    for text in (*(learner.name for learner in MANY), "expected cost per episode"):
        assert text in words


def inked(picture, colour=COLOURS[0]):
    """The number of pixels of a colour."""
    away = np.abs(image.imread(picture)[..., :3] - np.array(colors.to_rgb(colour))).max(axis=2)
    return int((away < 0.02).sum())


@pytest.mark.long
@needs_browser
def test_a_browser_shows_a_figure_a_report_and_what_a_notebook_shows(results, drawings, tmp_path):
    few = results["few"]
    svg = tmp_path / "cost.svg"
    svg.write_bytes(drawings["few-cost"].encoded("svg"))
    notebook = tmp_path / "notebook.html"
    notebook.write_text(f'<meta charset="utf-8">{few._repr_html_()}', encoding="utf-8")
    report = Results(few.directory).report()
    for page, says in (
        (svg, [">expected cost per episode</text>"]),
        (notebook, ["<table", "Delayed OPPO, rate 0.1", "<figcaption>", "95 % bootstrap"]),
        (report, ["<h2>Figures</h2>", "<h2>Differences", "What each agent was told"]),
    ):
        picture = tmp_path / f"{page.stem}.png"
        dom = pictured(tmp_path, page.absolute().as_uri(), picture, 900, 1600)
        for text in says:
            assert text in dom, (page, text)
        assert inked(picture) > 200, page


@pytest.mark.long
@needs_browser
def test_the_browser_tells_what_is_wrong_with_a_page(tmp_path):
    """Without this, the other tests could never fail."""
    page, picture = tmp_path / "bad.html", tmp_path / "bad.png"
    page.write_text("<body><script>nothing.of.this.name</script>")
    with pytest.raises(AssertionError, match="CONSOLE"):
        pictured(tmp_path, page.as_uri(), picture, 200, 200)
    assert inked(picture) == 0
