"""Others on the same machine: a second process, the network, a terminal, an impatient user."""

import dataclasses
import os
import pty
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from belated import cli
from belated.core import saving
from belated.lab import Case, part, run, store, toml
from belated.lab.spec import MOST_EPISODES, MOST_RUNS
from lab.small import TINY
from lab.small import files as contents
from limits import FULL, LIMIT, needs_ray

WRITER = """
import sys, os
from pathlib import Path
from belated.core import saving
real = os.fsync
def wait(descriptor):
    print("writing", flush=True)
    sys.stdin.readline()
    real(descriptor)
os.fsync = wait
saving.write(Path(sys.argv[1]), b"whole")
"""


def test_sweeping_leaves_the_file_that_a_live_process_writes(tmp_path):
    target = tmp_path / "deep" / "target"
    target.parent.mkdir()
    (tmp_path / "old.123.partial").write_bytes(b"left by a process that was killed")
    with subprocess.Popen(
        [sys.executable, "-c", WRITER, target],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    ) as writer:  # fmt: skip
        assert writer.stdout.readline() == "writing\n"
        saving.sweep(tmp_path)
        (left,) = tmp_path.rglob("*.partial")
        assert left.parent == target.parent
        writer.communicate("go on\n")
    assert writer.returncode == 0
    assert target.read_bytes() == b"whole"
    assert not list(tmp_path.rglob("*.partial"))


def test_sweeping_takes_the_file_of_a_killed_process(tmp_path):
    with subprocess.Popen(
        [sys.executable, "-c", WRITER, tmp_path / "target"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    ) as writer:  # fmt: skip
        assert writer.stdout.readline() == "writing\n"
        writer.kill()
    assert list(tmp_path.rglob("*.partial"))
    saving.sweep(tmp_path)
    assert not list(tmp_path.iterdir())


@pytest.mark.long
def test_two_processes_in_one_directory_both_end_with_whole_results(tmp_path):
    """Each sweeps many times while the other writes."""
    experiment = dataclasses.replace(TINY, name="both", seeds=6)
    run(experiment, tmp_path / "alone")
    code = """
import sys, threading
from pathlib import Path
from belated.core import saving
from belated.lab import Case, run, toml
if __name__ == "__main__":
    out, stop = Path("out"), threading.Event()
    def sweep():
        while not stop.wait(0.001):
            saving.sweep(out)
    out.mkdir(exist_ok=True)
    thread = threading.Thread(target=sweep)
    thread.start()
    try:
        run(toml.read(Path("both.toml")), out, jobs=1)
    finally:
        stop.set()
        thread.join()
"""
    (tmp_path / "both.toml").write_text(toml.dumps(experiment))
    (tmp_path / "both.py").write_text(code)
    pair = [
        subprocess.Popen(
            [sys.executable, "both.py"], cwd=tmp_path, stderr=subprocess.PIPE, text=True
        )
        for _ in range(2)
    ]
    for process in pair:
        _, text = process.communicate(timeout=LIMIT)
        assert process.returncode == 0, text
    assert contents(tmp_path / "out") == contents(tmp_path / "alone")
    assert store.rows(tmp_path / "out").equals(store.rows(tmp_path / "alone"))
    assert not list((tmp_path / "out").rglob("*.partial"))


def test_a_directory_that_another_process_just_began_is_joined(tmp_path, monkeypatch):
    """The other process writes spec.toml and its first results after this one has looked."""
    looked = Path.iterdir

    def late(path):
        before = list(looked(path))
        with monkeypatch.context() as once:
            once.setattr(Path, "iterdir", looked)
            store.open_for(tmp_path, TINY)
            (tmp_path / "runs").mkdir(exist_ok=True)
        return iter([*before, tmp_path / "runs"])

    monkeypatch.setattr(Path, "iterdir", late)
    store.open_for(tmp_path, TINY)
    assert store.spec(tmp_path) == TINY


LISTENERS = """
import os, sys
from pathlib import Path
from belated.lab import Case, named
from belated.lab.engine import outcomes
import dataclasses

def below(process):
    found = [process]
    for task in Path(f"/proc/{process}/task").glob("*/children"):
        for child in task.read_text().split():
            found += below(int(child))
    return found

def sockets():
    for process in below(os.getpid()):
        for descriptor in Path(f"/proc/{process}/fd").glob("*"):
            try:
                name = os.readlink(descriptor)
            except OSError:
                continue
            if name.startswith("socket:["):
                yield name[8:-1]

experiment = dataclasses.replace(named("paper-grid"), episodes=3, seeds=1)
attempts = outcomes(experiment, experiment.tasks()[:2], 1, "ray")
outcome = next(attempts)
assert outcome.rows is not None, outcome
ours = set(sockets())
for family in ("tcp", "tcp6"):
    for line in Path(f"/proc/net/{family}").read_text().splitlines()[1:]:
        words = line.split()
        if words[3] == "0A" and words[9] in ours:
            print(words[1].split(":")[0])
attempts.close()
"""


@needs_ray
@pytest.mark.skipif(not Path("/proc/net/tcp").exists(), reason="needs Linux")
@pytest.mark.long
def test_a_cluster_started_here_listens_on_loopback_only(tmp_path):
    env = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    done = subprocess.run(
        [sys.executable, "-c", LISTENERS],
        cwd=tmp_path, env=env, capture_output=True, text=True, check=False, timeout=LIMIT,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    listening = done.stdout.split()
    assert len(listening) >= 3
    loopback = {"0100007F", "0000000000000000FFFF00000100007F", "00000000000000000000000001000000"}
    assert set(listening) <= loopback


@pytest.mark.parametrize("pause", [0.0, 0.02, 0.2] if FULL else [0.02])
@pytest.mark.slow
def test_ctrl_c_twice_shows_one_line_and_no_traceback(tmp_path, pause):
    long = dataclasses.replace(TINY, episodes=10**6, agents=TINY.agents[:1], seeds=2)
    (tmp_path / "long.toml").write_text(toml.dumps(long))
    code = (
        "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "from belated.__main__ import main\nif __name__ == '__main__': main()\n"
    )
    (tmp_path / "program.py").write_text(code)
    process = subprocess.Popen(
        [sys.executable, "program.py", "run", "long.toml", "--jobs", "1", "--out", "out"],
        cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        start_new_session=True,
    )  # fmt: skip
    while not (tmp_path / "out" / "spec.toml").exists() and process.poll() is None:
        time.sleep(0.01)
    os.killpg(process.pid, signal.SIGINT)
    time.sleep(pause)
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGINT)
    text, _ = process.communicate(timeout=LIMIT)
    assert process.returncode == 130
    said = [line for line in text.splitlines() if not line.startswith("belated: tiny: ")]
    assert said == ["belated: stopped; run the same command to continue"]


def test_ctrl_c_twice_during_the_imports_shows_one_line(tmp_path):
    code = (
        "import os, signal, sys\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "class Twice:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name == 'cyclopts':\n"
        "            os.kill(os.getpid(), signal.SIGINT); os.kill(os.getpid(), signal.SIGINT)\n"
        "sys.meta_path.insert(0, Twice())\n"
        "from belated.__main__ import main\nmain()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (130, "")
    assert done.stderr == "belated: stopped; run the same command to continue\n"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--seeds", str(10**20)], f"seeds must be a whole number from 1 to {MOST_RUNS}"),
        (["--seeds", str(MOST_RUNS)], f"seeds must make at most {MOST_RUNS} runs"),
        (["--episodes", str(10**12)], f"episodes must be a whole number from 1 to {MOST_EPISODES}"),
        (["--episodes", "9" * 5000], "must be a whole number, got '999"),
        (["--seeds", "9" * 4000], "seeds must be a whole number from 1"),
        (["--jobs", str(10**9), "--seeds", "1"], "jobs must be a whole number from 1 to 4096"),
    ],
)
def test_absurd_sizes_get_one_sentence(tmp_path, capsys, monkeypatch, arguments, says):
    monkeypatch.chdir(tmp_path)
    assert cli.main(["run", "paper-grid", *arguments]) == 2
    text = capsys.readouterr().err
    assert says in text
    assert text.count("\n") == 1
    assert len(text) < 500
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("text", ["x = " + "9" * 5000, "x = " + "[" * 10**5])
def test_absurd_toml_gets_one_sentence(tmp_path, text):
    (tmp_path / "x.toml").write_text(text)
    with pytest.raises(ValueError, match=r"x\.toml") as caught:
        toml.read(tmp_path / "x.toml")
    assert "\n" not in str(caught.value)


EVIL = "a\x1b]0;owned\x07\x1b[31m\x9b2J\u202e"


@pytest.mark.long
def test_escape_characters_in_names_do_not_reach_the_terminal(tmp_path):
    (tmp_path / "mine.py").write_text(f"def late():\n    raise ValueError({EVIL!r})\n")
    fine = dataclasses.replace(TINY, about=EVIL, agents=TINY.agents[:1], seeds=1, episodes=5)
    assert toml.loads(toml.dumps(fine)) == fine
    raises = dataclasses.replace(fine, delays=part("mine:late"))
    for name, experiment in (("fine", fine), ("raises", raises)):
        (tmp_path / f"{name}.toml").write_text(toml.dumps(experiment))
    commands = [
        ["run", "fine.toml", "--jobs", "1", "--out", f"o{EVIL}"],
        ["run", "raises.toml"],
        ["run", f"{EVIL}.toml"],
        ["run", "fine.toml", "--seeds", EVIL],
        ["show", "fine.toml"],
        ["report", f"o{EVIL}"],
    ]
    (tmp_path / "program.py").write_text(
        "from belated import cli\n"
        "if __name__ == '__main__':\n"
        f"    print([cli.main(command) for command in {commands!r}])\n"
    )
    outer, inner = pty.openpty()
    shown = b""
    process = subprocess.Popen(
        [sys.executable, "program.py"], cwd=tmp_path, stdout=inner, stderr=inner, stdin=inner,
        env={**os.environ, "TERM": "dumb", "NO_COLOR": "1", "COLUMNS": "300"},
    )  # fmt: skip
    while process.poll() is None:
        shown += drained(outer)
    shown += drained(outer)
    os.close(inner)
    text = shown.decode()
    assert "[0, 2, 2, 2, 0, 0]" in text
    assert text.count("owned") >= 6
    assert not [line for line in text.splitlines() if not line.isprintable()]


@pytest.mark.parametrize("change", [{"name": EVIL}, {"title": EVIL}, {"cases": (Case(EVIL),)}])
def test_names_are_one_printable_line(change):
    with pytest.raises(ValueError, match=r"must be a text of one printable line") as caught:
        dataclasses.replace(TINY, **change)
    assert str(caught.value).isprintable()


def drained(descriptor):
    """The bytes that can be read now."""
    os.set_blocking(descriptor, False)
    try:
        return os.read(descriptor, 2**16)
    except BlockingIOError:
        time.sleep(0.02)
        return b""
