"""Writes the pages of the scripts in this directory."""

from pathlib import Path


def write(name: str, lines: list[str]) -> None:
    """Print a page and write it beside the scripts."""
    text = "\n".join(lines)
    print(text)
    Path(__file__).with_name(name).write_text(text, encoding="utf-8")
