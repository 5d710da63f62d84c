"""Experiments in TOML files, among them those of the paper and its other statements, by name.

Lancewicki, Rosenberg & Mansour (AAAI 2022), https://arxiv.org/abs/2012.14843, appendix "Full
details of the empirical evaluation". They are the files in `experiments`.
"""

import re
import tomllib
from pathlib import Path

import tomli_w

from belated.config.part import imported
from belated.core import checks
from belated.lab.spec import Experiment, from_table, to_table

NUMBERS = re.compile(r"\[\n(?: +[-+.\w]+,\n)+ *\]")
"""An array of plain values, as tomli_w writes it: one value per line."""

PLACE = Path(__file__).with_name("experiments")
EXPERIMENTS = tuple(sorted(path.stem for path in PLACE.glob("*.toml")))
"""The names of the experiments."""


def dumps(experiment: Experiment) -> str:
    """The experiment as TOML text. Unprintable characters are escaped, for terminals."""
    text = NUMBERS.sub(_on_one_line, tomli_w.dumps(to_table(experiment)))
    return "".join(c if c.isprintable() or c == "\n" else f"\\U{ord(c):08x}" for c in text)


def _on_one_line(found: re.Match[str]) -> str:
    return f"[{', '.join(found[0].strip('[]').split())}]".replace(",,", ",").replace(",]", "]")


def loads(text: str, source: str = "the text") -> Experiment:
    """The experiment in a TOML text. A mistake raises ValueError with one line."""
    try:
        table = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{source} is not TOML that can be read: {error}") from None
    try:
        return from_table(table)
    except ValueError as error:
        raise ValueError(f"{source}: {error}") from None


def read(path: str | Path) -> Experiment:
    """The experiment in a TOML file."""
    try:
        text = Path(path).read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise ValueError(f"{path} is missing: there is no such file") from None
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} must be a readable TOML file: {error}") from None
    return loads(text, str(path))


def named(name: str) -> Experiment:
    """An experiment by its name, or the one that a `module:function` returns."""
    if ":" not in name:
        return read(PLACE / f"{checks.choice('experiment', name, EXPERIMENTS)}.toml")
    made: Experiment = imported("experiment", name, EXPERIMENTS)()
    checks.instance("experiment", made, Experiment)
    return made
