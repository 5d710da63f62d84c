"""Diagnostics as JSON lines."""

import io
import json
import math
import subprocess
import sys

import numpy as np
import pytest

import belated as bl


def agent():
    return bl.recommend(bl.Problem(2, 2, 2), information="bandit")


def test_lines_are_appended_and_say_what_the_agent_says(tmp_path):
    one, path = agent(), tmp_path / "watch.jsonl"
    for k in range(3):
        one.begin_episode()
        told = bl.watching.write_diagnostics(one, path, time=float(k))
        assert told == {"time": k, **one.diagnostics()}
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    assert [row["begun"] for row in rows] == [1, 2, 3]
    assert rows[-1] == told
    stream = io.StringIO()
    bl.watching.write_diagnostics(one, stream)
    assert json.loads(stream.getvalue()) == dict(one.diagnostics())


def test_what_json_cannot_hold_is_null_and_bad_arguments_are_named():
    class Odd(bl.DelayedOPPO):
        def diagnostics(self):
            return {"gap": math.inf}

    stream = io.StringIO()
    bl.watching.write_diagnostics(Odd(bl.Problem(1, 2, 1)), stream)
    assert stream.getvalue() == '{"gap": null}\n'
    more = {"day": np.int64(3), "share": np.float64(0.5), "left": math.nan, "shop": "north"}
    told = bl.watching.write_diagnostics(agent(), stream, **more)
    assert json.loads(stream.getvalue().splitlines()[1]) == told
    assert [told[name] for name in more] == [3, 0.5, None, "north"]
    with pytest.raises(ValueError, match=r"when must be a number, a text or None, got \[1\]"):
        bl.watching.write_diagnostics(agent(), stream, when=[1])
    with pytest.raises(ValueError, match=r"more must have other names .* got 'begun'"):
        bl.watching.write_diagnostics(agent(), stream, begun=3)
    with pytest.raises(ValueError, match="to must be a path or a text stream, got 7"):
        bl.watching.write_diagnostics(agent(), 7)
    with pytest.raises(ValueError, match="agent must be an agent"):
        bl.watching.write_diagnostics(None, stream)


def test_without_the_extra_the_lab_says_what_to_install():
    code = """
import sys
sys.modules["polars"] = None
ways = ("from belated import lab", "import belated.lab", "from belated.lab import run",
        "import belated as bl; bl.lab", "import belated.lab.plot")
for way in ways:
    try:
        exec(way)
    except ImportError as error:
        assert str(error) == "belated.lab needs polars: pip install 'belated[lab]'", (way, error)
    else:
        raise SystemExit(f"no error: {way}")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
