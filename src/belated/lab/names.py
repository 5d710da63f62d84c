"""Names of experiments, agents and cases, which also name files."""

from __future__ import annotations

import re
from collections.abc import Sequence

from belated.core import checks

LONGEST = 100
"""The largest number of characters of a name in a file name."""


def slug(name: str) -> str:
    """A name for files and addresses: lower-case letters, digits and dashes."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")


def is_math(label: str) -> bool:
    """Whether a label holds mathematics: two dollars, and no more."""
    return label.count("$") == 2 and "$$" not in label


def check_name(key: str, value: object) -> None:
    """Check that a name can name files."""
    if not isinstance(value, str) or not 1 <= len(slug(value)) <= LONGEST:
        raise ValueError(
            f"{key} must be a text with 1 to {LONGEST} letters from a to z or digits, since it "
            f"names files, got {checks.show(value)}"
        )
    check_line(key, value)


def check_line(key: str, value: object) -> None:
    """Check that a text to be shown is one printable line, without escape characters."""
    if not isinstance(value, str) or not value.isprintable():
        raise ValueError(f"{key} must be a text of one printable line, got {checks.show(value)}")


def check_different(key: str, names: Sequence[str]) -> None:
    """Check that names differ as file names."""
    slugs = [slug(name) for name in names]
    twice = [name for i, name in enumerate(names) if slugs[i] in slugs[:i]]
    if twice:
        raise ValueError(
            f"{key} must have names that differ as file names, got {slug(twice[0])!r} twice "
            f"(the second is {twice[0]!r})"
        )
