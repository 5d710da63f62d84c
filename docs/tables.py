"""Tables that pages of the documentation take from numbers in files."""

import re
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1]))  # for the suites


def markdown(head: list[str], cells: list[list[str]], align: str = "---") -> str:
    """A table; align: the rule of all columns but the first."""
    rule = ["---"] + [align] * (len(head) - 1)
    return "\n".join(f"| {' | '.join(row)} |" for row in (head, rule, *cells))


def renewed(page: Path, tables: dict[str, str]) -> str:
    """The text of a page with new tables; each follows a comment with its name."""
    text = page.read_text(encoding="utf-8")
    for name, table in tables.items():
        text, found = re.subn(
            rf"(<!-- {name} -->\n\n)(?:.+\n)*", lambda m, t=table: f"{m[1]}{t}\n", text
        )
        if found != 1:
            raise ValueError(f"{page} must have one place <!-- {name} -->, got {found}")
    return text
