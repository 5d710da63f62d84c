"""Write docs/kinds.md, the list of all kinds: python docs/kinds.py."""

from pathlib import Path

from belated import lab  # noqa: F401 - it adds kinds of its own
from belated.lab.listing import SECTIONS, all_kinds

HEAD = """# Kinds

Everything that an experiment of [the lab](lab.md) can name, with parameters and defaults;
`belated kinds` prints the same list, and `belated kinds NAME` describes one in full. This page is
made from the code: `python docs/kinds.py`.

"""


def text() -> str:
    """The page: a table for each sort of part."""
    found = []
    for section in SECTIONS:
        lines = [f"## {section}", "", "| kind | what it is | parameters |", "| --- | --- | --- |"]
        for own, name, about, parameters in all_kinds():
            if own == section:
                given = ", ".join(f"`{item}`" for item in parameters) or "none"
                lines.append(f"| `{name}` | {about.splitlines()[0]} | {given} |")
        found.append("\n".join(lines))
    return HEAD + "\n\n".join(found) + "\n"


if __name__ == "__main__":
    Path(__file__).with_name("kinds.md").write_text(text(), encoding="utf-8")
