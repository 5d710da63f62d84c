"""The service works without the lab, and the client without the lab and the service."""

import os
import subprocess
import sys

import httpx
import pytest

from limits import LIMIT
from serving import SHOP, config, restored, running

LAB = ("joblib", "matplotlib", "polars", "tabulate", "tomli_w")
BLOCK = """
import sys

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {names!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Missing())
"""


def without(directory, *names):
    """An environment in which these packages cannot be imported."""
    (directory / "sitecustomize.py").write_text(BLOCK.format(names=names))
    paths = [str(directory), os.environ.get("PYTHONPATH", "")]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}


def belated(directory, env, *arguments):
    return subprocess.run(
        [sys.executable, "-m", "belated", *arguments],
        cwd=directory, env=env, capture_output=True, text=True, check=False,
    )  # fmt: skip


def test_the_service_needs_nothing_of_the_lab(tmp_path):
    env = without(tmp_path, *LAB)
    table = config(tmp_path, learners=[SHOP])
    with (
        running(tmp_path, table, env=env) as server,
        httpx.Client(base_url=server.url, timeout=LIMIT) as web,
    ):
        base = "/v1/learners/shop"
        assert web.post(f"{base}/episodes", json={"key": "k"}).json()["episode"] == 0
        action = web.post(f"{base}/decide", json={"episode": 0, "step": 0, "state": 0})
        assert action.status_code == 200
        told = web.post(f"{base}/feedback", json={"episode": 0, "costs": [0.5]})
        assert told.json()["outcome"] == "taken"
        assert web.get("/").status_code == web.get("/metrics").status_code == 200
    # a path and its cost, each with the row that closes it
    assert len(restored(table, "shop")[1]["outcomes"]) == 4
    done = belated(tmp_path, env, "extract", "serve.toml", "shop", "shop.belated")
    assert (done.returncode, done.stdout) == (0, "agent: shop.belated\n"), done.stderr
    done = belated(tmp_path, env, "token")
    assert done.returncode == 0
    assert done.stdout.startswith("token:  belated-")
    done = belated(tmp_path, env, "run", "paper-grid")
    assert done.returncode == 2
    assert "pip install 'belated[lab]'" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("serve", "missing.toml"), "must be a readable TOML file"),
        (("serve", "--port", "x"), "must be a whole number, got 'x'"),
        (("serve", "--prot", "1"), "Unknown option: --prot"),
        (("extract", "my.toml"), "LEARNER requires an argument"),
    ],
)
def test_a_mistake_is_one_line(tmp_path, arguments, said):
    done = belated(tmp_path, None, *arguments)
    assert done.returncode == 2
    assert done.stdout == ""
    assert said in done.stderr
    assert done.stderr.count("\n") == 1


def test_missing_packages_are_named_with_their_extra(tmp_path):
    env = without(tmp_path, "uvicorn", "httpx", *LAB)
    done = belated(tmp_path, env, "serve")
    assert done.returncode == 2
    assert done.stderr.startswith("belated needs uvicorn: pip install ")
    assert done.stderr.endswith("'belated[serve]' for the service\n")
    assert belated(tmp_path, env, "token").returncode == 0
    done = subprocess.run(
        [sys.executable, "-c", "import belated.client"],
        env=env, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert "belated.client needs httpx: pip install 'belated[client]'" in done.stderr


def test_the_client_loads_neither_numba_nor_scipy(tmp_path):
    env = without(tmp_path, "numba", "scipy", "starlette", *LAB)
    code = "import belated.client, sys; assert not {'numba', 'scipy'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], env=env, check=True)
