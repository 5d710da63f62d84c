"""The cost of a start: an import compiles nothing, and neither does a second start."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest

import belated as bl
from belated.names import MODULES

COUNT = """
import json, pkgutil, importlib, sys
import belated.tabular.kernels as kernels
from numba.core.registry import CPUDispatcher
misses = compiled = 0
for module in pkgutil.iter_modules(kernels.__path__, "belated.tabular.kernels."):
    for item in vars(importlib.import_module(module.name)).values():
        if isinstance(item, CPUDispatcher):
            compiled += len(item.signatures)
            misses += sum(item.stats.cache_misses.values())
print(json.dumps({"compiled": compiled, "misses": misses, "modules": sorted(sys.modules)}))
"""


def run(code, tmp_path, **environment):
    env = {**os.environ, "MPLBACKEND": "Agg", **environment}
    done = subprocess.run(  # noqa: PLW1510 - the message is in the assertion
        [sys.executable, "-c", code], cwd=tmp_path, env=env, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


SLOW = {"scipy.optimize", "matplotlib", "polars", "ray", "gymnasium", "rich"}


def test_an_import_leaves_slow_packages_alone(tmp_path):
    code = "import belated, json, sys; print(json.dumps(sorted(sys.modules)))"
    assert not (SLOW | {"numpy", "numba", "scipy"}) & set(run(code, tmp_path))


def test_names_compile_nothing_and_import_what_they_need(tmp_path):
    counted = run("import belated as bl; bl.simulate, bl.DelayedOPPO" + COUNT, tmp_path)
    assert counted["compiled"] == 0
    assert not (SLOW | {"belated.saving"}) & set(counted["modules"])


@pytest.mark.slow
def test_every_name_can_be_asked_for_first(tmp_path):
    code = """
import json, sys, belated
seen = {}
for name in belated.__all__:
    for module in [m for m in sys.modules if m.startswith("belated.")]:
        vars(belated).pop(module.split(".")[1], None)
        del sys.modules[module]
    seen[name] = type(getattr(belated, name)).__name__
print(json.dumps(seen))
"""
    seen = run(code, tmp_path)
    modules = {name for name, kind in seen.items() if kind == "module"}
    assert modules == set(MODULES.split())
    assert sorted(bl.__all__) == dir(bl)
    assert len(dir(bl)) <= 48
    assert bl.saving.save is bl.save  # a module that is not listed works, too
    assert not hasattr(bl, "nothing_of_this_name")


@pytest.mark.long
def test_the_second_demo_compiles_nothing(tmp_path):
    """A small form of `make demo`: its processes find every kernel in the cache."""
    cache = tmp_path / "cache"
    seen = []
    for out in ("first", "second"):
        done = subprocess.run(
            [sys.executable, "-m", "belated", "run", "paper-grid", "--seeds", "1",
             "--episodes", "80", "--jobs", "1", "--out", out],
            check=False, cwd=tmp_path, env={**os.environ, "NUMBA_CACHE_DIR": str(cache)},
            capture_output=True, text=True,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        seen.append({path: path.stat().st_mtime_ns for path in cache.rglob("*.nb[ic]")})
    assert len(seen[0]) > 10
    assert seen[0] == seen[1]


@pytest.mark.slow
def test_kernels_run_uncompiled_with_the_same_results(tmp_path):
    settings = [
        "transitions=w.mdp.transitions",
        "transitions=bl.parts.Confidence(0.05), update=bl.parts.Softmax(0.3)",
        "transitions=bl.parts.Bonus(), update=bl.parts.Softmax(0.3)",
        "transitions=bl.parts.Confidence(0.05), costs=bl.parts.Weighted(0.1), "
        "update=bl.parts.Softmax(0.1)",
    ]
    code = f"""
import json
import belated as bl
w = bl.environments.random_mdp(4, 2, 3)
values = []
for agent in [{", ".join(f"bl.DelayedOPPO(w.problem, {s})" for s in settings)}]:
    run = bl.simulate(w, agent, delays=bl.delays.geometric(2), episodes=15)
    values.append(run.values.tolist())
print(json.dumps(values))
"""
    plain = run(code, tmp_path, NUMBA_DISABLE_JIT="1")
    compiled = run(code, tmp_path)
    np.testing.assert_allclose(plain, compiled, atol=1e-12)
