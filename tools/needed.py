"""Print the dependencies of the package, as pyproject.toml has them, for pip."""

import tomllib
from pathlib import Path

project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text(encoding="utf-8"))
print(*project["project"]["dependencies"])
