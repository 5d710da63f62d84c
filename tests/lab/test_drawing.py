"""A legend for few curves, panels for many of them, and files for print."""

import re

import matplotlib
import numpy as np

from belated.lab import statistics
from belated.lab.figures import curves as figures
from belated.lab.figures import style as drawing


def test_looks_are_different_for_eighty_agents_and_colours_for_sixteen():
    names = [f"a{i}" for i in range(80)]
    looks = [drawing.look(names, name) for name in names]
    assert len(set(looks)) == 80
    assert len({colour for colour, _ in looks[:16]}) == 16


def drawn(N, **layout):
    def paint(axes, focus):
        for name in names:
            axes.plot([1, 2], [0, names.index(name)], label=name)

    names = [f"agent {i}" for i in range(N)]
    made = drawing.Layout(**layout)
    with matplotlib.rc_context(made.style):
        return drawing.plot(names, paint, made, "A title")


def test_many_curves_have_panels_of_their_own():
    for N, panels in ((7, 1), (8, 8), (9, 9), (13, 13)):
        figure, axes = drawn(N)
        assert len(axes) == panels
        if panels > 1:
            titles = [one.get_title(loc="left") for one in axes]
            assert titles == [f"agent {i}" for i in range(N)]
            assert figure.get_suptitle() == "A title"
    figure, axes = drawn(9, legend=True, title=False)
    assert len(axes) == 1
    assert len(figure.legends[0].get_texts()) == 9
    assert axes[0].get_title(loc="left") == ""
    figure, _ = drawn(3, width="column")
    assert figure.get_figwidth() == 3.4
    assert len(figure.legends[0].get_texts()) == 3


def test_a_long_legend_leaves_the_plot_as_tall_as_a_short_one():
    """The height of the axes in inches, once they are laid out."""

    def tall(N, **layout):
        figure, (axes,) = drawn(N, legend=True, **layout)
        figure.draw_without_rendering()
        return axes.get_position().height * figure.get_figheight()

    for layout in ({}, {"width": "column"}, {"width": "page"}):
        assert tall(30, **layout) > 0.8 * tall(2, **layout)


def test_files_are_fit_for_print():
    figure, _ = drawn(3, width=4)
    made = drawing.Drawing("x", "X.", figure)
    pdf = made.encoded("pdf")
    kinds = set(re.findall(rb"/Subtype /(Type\w+|CIDFontType\w+)", pdf))
    assert kinds == {b"Type0", b"CIDFontType2"}  # Type 42, embedded as TrueType
    svg = made.encoded("svg").decode()
    assert ">A title</text>" in svg
    assert ">agent 1</text>" in svg
    png = made.encoded("png")
    width = int.from_bytes(png[16:20], "big")
    assert width == 4 * 300
    at = png.index(b"pHYs") + 4
    assert round(int.from_bytes(png[at : at + 4], "big") * 0.0254) == 300


def test_jagged_curves_are_drawn_in_longer_blocks():
    rng = np.random.default_rng(0)
    falling = np.exp(-np.arange(300) / 40)
    assert not figures.jagged(falling)
    assert not figures.jagged(falling + 0.01 * rng.normal(size=300))
    assert not figures.jagged(np.zeros(300))
    assert figures.jagged(rng.normal(size=300))
    curves = [statistics.Curves(np.arange(1), rng.normal(size=(1, 300)))]
    assert figures._block("cost", curves, drawing.Layout()) == 5
    assert figures._block("cost", curves, drawing.Layout(block=7)) == 7
