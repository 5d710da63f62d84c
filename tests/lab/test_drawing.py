"""Looks, legends, and files for print."""

import re

import matplotlib

from belated.lab import plot


def test_looks_are_different_for_eighty_agents_and_colours_for_sixteen():
    names = [f"a{i}" for i in range(80)]
    looks = [tuple(plot._look(names, name).values()) for name in names]
    assert len(set(looks)) == 80
    assert len({colour for colour, _ in looks[:16]}) == 16


class Some:
    """Results of which only the title is needed."""

    def title(self, case):
        return "A title"


def drawn(N, **look):
    def paint(axes, result, look):
        for name in names:
            axes.plot([1, 2], [0, names.index(name)], label=name)
        return "X."

    names = [f"agent {i}" for i in range(N)]
    return plot._drawing(Some(), "x", "", paint, plot.Look(**look))


def test_a_long_legend_leaves_the_plot_as_tall_as_a_short_one():
    """The height of the axes in inches, once they are laid out."""

    def tall(N, **look):
        figure = drawn(N, **look).figure
        assert len(figure.legends[0].get_texts()) == N
        figure.draw_without_rendering()
        return figure.axes[0].get_position().height * figure.get_figheight()

    for look in ({}, {"width": "column"}, {"width": "page"}):
        assert tall(30, **look) > 0.8 * tall(2, **look)


def test_files_are_fit_for_print():
    before = dict(matplotlib.rcParams)
    made = drawn(3, width=4)
    assert made.figure.get_figwidth() == 4
    pdf = made.encoded("pdf")
    kinds = set(re.findall(rb"/Subtype /(Type\w+|CIDFontType\w+)", pdf))
    assert kinds == {b"Type0", b"CIDFontType2"}  # Type 42, embedded as TrueType
    svg = made.encoded("svg").decode()
    assert ">A title</text>" in svg
    assert ">agent 1</text>" in svg
    assert ">A title</text>" not in drawn(3, title=False).encoded("svg").decode()
    png = made.encoded("png")
    width = int.from_bytes(png[16:20], "big")
    assert width == 4 * 300
    at = png.index(b"pHYs") + 4
    assert round(int.from_bytes(png[at : at + 4], "big") * 0.0254) == 300
    assert dict(matplotlib.rcParams) == before
