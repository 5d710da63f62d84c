"""The wheel holds the package, and works without this checkout."""

import os
import subprocess
import sys
import sysconfig
import venv
import zipfile
from email.parser import Parser
from pathlib import Path

import pytest
import yaml

import belated as bl

ROOT = Path(__file__).parent.parent

USE = """
import importlib.metadata, pathlib, sys
import numpy as np
import belated as bl
assert pathlib.Path(bl.__file__).is_relative_to(sys.prefix), bl.__file__
assert importlib.metadata.version("belated") == bl.__version__
world = bl.environments.gridworld(size=3, horizon=6)
agent = bl.DelayedOPPO(world.problem, transitions=bl.parts.Bonus(), update=bl.parts.Softmax(0.5))
run = bl.simulate(world, agent, delays=bl.delays.geometric(2), episodes=20)
assert np.isfinite(run.regret).all()
lake = bl.environments.from_gymnasium("FrozenLake-v1", 5)
assert lake.problem.states == 17
"""

TYPED = """
import belated as bl
world: bl.World = bl.environments.gridworld(size=3)
wrong: int = bl.simulate(world, bl.DelayedOPPO(world.problem), episodes=2).regret
"""


def run(*command, cwd):
    away = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    parts = [str(part) for part in command]
    return subprocess.run(parts, cwd=cwd, env=away, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    out = tmp_path_factory.mktemp("wheel")
    built = run(
        sys.executable,
        "-m",
        "hatchling",
        "build",
        "--target",
        "wheel",
        "--directory",
        out,
        cwd=ROOT,
    )
    assert built.returncode == 0, built.stdout + built.stderr
    (path,) = out.glob("*.whl")
    return path


def test_the_wheel_holds_the_package_its_types_and_nothing_else(wheel):
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        metadata = Parser().parsestr(
            archive.read(next(n for n in names if n.endswith("/METADATA"))).decode()
        )
    inside = {n for n in names if n.startswith("belated/")}
    sources = {
        str(path.relative_to(ROOT / "src"))
        for path in (ROOT / "src" / "belated").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert inside == sources
    assert "belated/py.typed" in inside
    assert all(n in inside or ".dist-info/" in n for n in names)
    assert any(n.endswith("licenses/LICENSE") for n in names)
    assert metadata["Version"] == bl.__version__
    assert {"lab", "gymnasium", "ray", "docs", "dev"} <= set(metadata.get_all("Provides-Extra"))
    needed = {r.split(";")[0] for r in metadata.get_all("Requires-Dist") if "extra" not in r}
    assert {n.split(">")[0] for n in needed} == {"numpy", "numba", "scipy"}


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory):
    """A fresh environment with the wheel; its dependencies are borrowed from this one."""
    home = tmp_path_factory.mktemp("installed")
    venv.create(home / "venv", with_pip=False)
    python = home / "venv" / "bin" / "python"
    done = run(
        *(sys.executable, "-m", "pip", "--python", python, "--disable-pip-version-check"),
        *("install", "--quiet", "--no-deps", "--no-index", wheel),
        cwd=home,
    )
    assert done.returncode == 0, done.stderr
    (packages,) = (home / "venv" / "lib").glob("python*/site-packages")
    # A path in a .pth file is searched last, and the .pth files in it (this checkout's) are not.
    (packages / "borrowed.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return python


@pytest.mark.long
def test_the_installed_wheel_works_from_another_directory(installed, tmp_path):
    done = run(installed, "-W", "error", "-c", USE, cwd=tmp_path)
    assert done.returncode == 0, done.stderr


@pytest.mark.long
def test_the_installed_wheel_has_a_command_line(installed, tmp_path):
    done = run(installed, "-m", "belated", "--help", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "belated" in done.stdout


@pytest.mark.long
def test_the_installed_wheel_brings_its_types(installed, tmp_path):
    (tmp_path / "typed.py").write_text(TYPED)
    done = run(
        *(sys.executable, "-m", "mypy", "--strict", "--python-executable", installed),
        *("--cache-dir", tmp_path / "cache", "typed.py"),
        cwd=tmp_path,
    )
    assert 'Incompatible types in assignment (expression has type "ndarray' in done.stdout
    assert "Found 1 error in 1 file" in done.stdout, done.stdout


def test_the_citation_can_be_read():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert {"cff-version", "message", "title", "authors"} <= citation.keys()
    assert citation["license"] == "MIT"
    assert citation["references"][0]["year"] == 2022
