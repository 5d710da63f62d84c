"""The versions that are installed for the tests: pinned, and in one job the lowest allowed."""

import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
LINE = re.compile(r"([A-Za-z0-9_.-]+)==([0-9][\w.]*)")


def pins(name):
    """The lines of a constraints file, each a bare name==version."""
    lines = (ROOT / name).read_text(encoding="utf-8").splitlines()
    found = [LINE.fullmatch(line.partition(" ;")[0]) for line in lines]
    assert all(found), name
    return {match[1].lower().replace("_", "-"): match[2] for match in found}


def test_the_lowest_versions_are_those_that_the_package_declares():
    extras = PROJECT["project"]["optional-dependencies"]
    declared = PROJECT["project"]["dependencies"] + [
        requirement
        for extra in ("client", "docs", "gymnasium", "lab", "ray", "serve")
        for requirement in extras[extra]
        if not requirement.startswith("belated")
    ]
    lowest = dict(re.sub(r"\[.*\]|;.*", "", requirement).split(">=") for requirement in declared)
    assert pins("constraints-minimum.txt") == lowest


def test_builds_take_the_pinned_hatchling():
    (backend,) = PROJECT["build-system"]["requires"]
    assert backend.startswith("hatchling>=")
    assert "hatchling" in pins("constraints.txt")


@pytest.mark.skipif(shutil.which("make") is None, reason="needs make")
def test_make_tells_pip_what_to_build_with():
    """The constraint of the command line does not reach an isolated build; a variable does."""
    done = subprocess.run(
        ["make", "--dry-run", "--always-make", "demo", "VENV=nowhere"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    )  # fmt: skip
    (install,) = (line for line in done.stdout.splitlines() if '".[lab]"' in line)
    constraints = ROOT / "constraints.txt"
    assert f'PIP_CONSTRAINT="{constraints}"' in done.stdout
    assert f'PIP_BUILD_CONSTRAINT="{constraints}"' in done.stdout
    assert "--constraint constraints.txt" in install
    done = subprocess.run(
        ["make", "--dry-run", "minimum"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert f'PIP_BUILD_CONSTRAINT="{constraints}"' in done.stdout


def test_one_job_of_the_workflow_has_the_lowest_versions():
    text = (ROOT / ".github" / "workflows" / "ci.yml").read_text(encoding="utf-8")
    job = yaml.safe_load(text)["jobs"]["test"]
    assert {"python": "3.11", "target": "minimum"} in job["strategy"]["matrix"]["include"]
    assert any("make ${{ matrix.target }}" in step.get("run", "") for step in job["steps"])
    assert "constraints-minimum.txt" in (ROOT / "Makefile").read_text(encoding="utf-8")
