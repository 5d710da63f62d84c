"""After kill -9 at any moment, the same command continues and gives the same rows."""

import dataclasses
import os
import random
import signal
import subprocess
import sys
import time

import pytest

from belated.lab import part, run, store, toml
from belated.lab.spec import Learner
from lab.small import BONUS, STEP, TINY, files
from limits import FULL, LIMIT, needs_ray

EXPERIMENT = dataclasses.replace(
    TINY,
    name="kill",
    environment=part("gridworld", size=6, horizon=20),
    agents=(
        Learner("A", BONUS),
        Learner("B", part("oppo", transitions="known", update=STEP)),
    ),
    episodes=280,
    seeds=5 if FULL else 1,
    sweep={
        "agents.a.update.learning_rate": [0.03, 0.1, 0.3, 1.0] if FULL else [0.1, 1.0],
        "agents.b.update.learning_rate": [0.1, 1.0],
        "delays.mean": [2, 10],
    },
    against="delays.mean",
)
"""A sweep of 12 settings, or of 8."""
KILLS = 12 if FULL else 2


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    directory = tmp_path_factory.mktemp("undisturbed")
    run(EXPERIMENT, directory, engine="here")
    return files(directory)


def start(tmp_path, jobs, code="", engine="local", experiment=EXPERIMENT):
    """The command in a process group of its own; `code` runs first."""
    (tmp_path / "kill.toml").write_text(toml.dumps(experiment))
    program = f"{code}\nfrom belated.__main__ import main\nif __name__ == '__main__':\n    main()\n"
    (tmp_path / "program.py").write_text(program)
    command = ["program.py", "run", "kill.toml", "--jobs", str(jobs), "--out", "out"]
    command += ["--engine", engine]
    return subprocess.Popen(
        [sys.executable, *command],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
        text=True,
    )


def finished(directory):
    return len(list(directory.rglob("*.parquet"))) if directory.exists() else 0


@pytest.mark.slow
def test_kill_at_random_moments_then_continue(tmp_path, undisturbed):
    rng = random.Random(0)
    out = tmp_path / "out"
    kills = 0
    counts = [0]
    while kills < KILLS:
        process = start(tmp_path, jobs=1 + kills % 2)
        before = counts[-1]
        if kills % 3:  # wait for work to be under way, so that kills do not all hit the imports
            while finished(out) == before and process.poll() is None:
                time.sleep(0.01)
        time.sleep(rng.uniform(0.0, 0.4))
        if process.poll() is not None:
            break
        if kills % 4 == 3:  # the workers too
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()
        process.communicate()
        kills += 1
        counts.append(finished(out))
        if counts[-1] == len(EXPERIMENT.tasks()):
            break
    assert kills >= 1
    assert kills == KILLS or finished(out) == len(EXPERIMENT.tasks())
    assert counts == sorted(counts)
    when = {path: path.stat().st_mtime_ns for path in out.rglob("*.parquet")}
    last = start(tmp_path, jobs=1)
    text, _ = last.communicate(timeout=LIMIT)
    assert last.returncode == 0, text
    assert f"Finished before: {len(when)} run" in text
    assert all(path.stat().st_mtime_ns == moment for path, moment in when.items())
    assert files(out) == undisturbed
    assert store.rows(out).equals(store.rows(out).unique(maintain_order=True))
    assert not list(out.rglob("*.partial"))


@pytest.mark.parametrize("moment", ["starting", "working"])
@pytest.mark.long
def test_interrupted_it_says_one_line_and_continues(tmp_path, moment):
    code = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"
    endless = dataclasses.replace(EXPERIMENT, seeds=1000)
    process = start(tmp_path, jobs=2, code=code, experiment=endless)
    spec = tmp_path / "out" / "spec.toml"
    while not spec.exists() and process.poll() is None:  # once it exists, figures are imported
        time.sleep(0.01)
    time.sleep(0.3)
    while moment == "working" and finished(tmp_path / "out") < 1 and process.poll() is None:
        time.sleep(0.01)
    assert process.poll() is None, process.communicate()[0]
    os.killpg(process.pid, signal.SIGINT)
    text, _ = process.communicate(timeout=LIMIT)
    assert process.returncode == 130
    said = [line for line in text.splitlines() if not line.startswith("belated: kill: ")]
    assert said == ["belated: stopped; run the same command to continue"]


@needs_ray
@pytest.mark.long
def test_kill_with_ray_then_continue_with_ray(tmp_path, undisturbed):
    out = tmp_path / "out"
    process = start(tmp_path, jobs=2, engine="ray")
    while finished(out) < 3 and process.poll() is None:
        time.sleep(0.01)
    process.kill()
    process.communicate()
    assert finished(out) >= 3
    last = start(tmp_path, jobs=2, engine="ray")
    text, _ = last.communicate(timeout=LIMIT)
    assert last.returncode == 0, text
    assert files(out) == undisturbed


@pytest.mark.skipif(not hasattr(signal, "SIGXFSZ"), reason="needs limits on the size of files")
@pytest.mark.slow
def test_kill_in_the_middle_of_writing_rows(tmp_path, undisturbed):
    # No file may exceed 9 kB: the system kills a process that writes more, in the middle of a file.
    limit = """
import resource, signal
if __name__ == "__main__":
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
    resource.setrlimit(resource.RLIMIT_FSIZE, (9000, 9000))
"""
    process = start(tmp_path, jobs=1, code=limit)
    text, _ = process.communicate(timeout=LIMIT)
    assert process.returncode == -signal.SIGXFSZ, text
    out = tmp_path / "out"
    (half,) = out.rglob("*.partial")
    assert half.stat().st_size == 9000
    assert finished(out) == 0
    last = start(tmp_path, jobs=1)
    text, _ = last.communicate(timeout=LIMIT)
    assert last.returncode == 0, text
    assert files(out) == undisturbed
