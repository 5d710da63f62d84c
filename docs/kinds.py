"""Write docs/kinds.md, the list of all kinds: python docs/kinds.py."""

from pathlib import Path

from belated import lab  # noqa: F401 - it adds kinds of its own
from belated.config.listing import markdown

HEAD = """# Kinds

Everything that an experiment of [the lab](lab.md) can name, with parameters and defaults;
`belated kinds` prints the same list, and `belated kinds NAME` describes one in full. This page is
made from the code: `python docs/kinds.py`.

"""


def text() -> str:
    """The page."""
    return HEAD + markdown()


if __name__ == "__main__":
    Path(__file__).with_name("kinds.md").write_text(text(), encoding="utf-8")
