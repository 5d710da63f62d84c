"""Formulas as MathML, set when the pages are built: browsers show them without the internet."""

from __future__ import annotations

import re
from typing import Any

from docutils import nodes
from latex2mathml.converter import convert


def mathml(tex: str, *, block: bool = False) -> str:
    """A formula in MathML, with its source as an annotation.

    Raises:
                ValueError: if a part of the formula would be shown as TeX.
    """
    made = convert(_plain(tex), display="block" if block else "inline")
    if left := re.search(r">[^<]*(\\[a-zA-Z]+)", made):
        raise ValueError(f"the formula {tex!r} holds {left[1]}, which has no form in MathML")
    return made


def _plain(tex: str) -> str:
    """The formula in the commands that the converter knows."""
    tex = re.sub(r"\\tfrac\b", r"\\frac", tex)
    return re.sub(r"\\[bB]igg?[lrm]?(?![a-zA-Z])", "", tex)


def _inline(writer: Any, node: nodes.math) -> None:
    writer.body.append(mathml(node.astext()))
    raise nodes.SkipNode


def _block(writer: Any, node: nodes.math_block) -> None:
    writer.body.append(f'<div class="math">{mathml(node.astext(), block=True)}</div>\n')
    raise nodes.SkipNode


def setup(app: Any) -> dict[str, bool]:
    """Register the renderer with Sphinx."""
    app.add_html_math_renderer("mathml", (_inline, None), (_block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
