"""Tables that pages of the documentation take from numbers in files."""

import csv
import re
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1]))  # for the suites


def read(path: Path) -> list[dict[str, str]]:
    """The rows of a file of numbers, by column."""
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def write(path: Path, head: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Write a file of numbers."""
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([head, *rows])


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
