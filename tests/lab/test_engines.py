"""Every engine gives the same rows, replaces workers that die, and names runs that fail."""

import contextlib
import dataclasses
import os
import secrets
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import types
from pathlib import Path

import numpy as np
import pytest

import belated as bl
from belated.lab import RunsFailed, part, run, store, toml
from belated.lab.engine import outcomes
from belated.lab.run import execute
from belated.lab.spec import Case, Learner
from belated.lab.task import perform
from lab.small import BONUS, STEP, TINY, files
from limits import FULL, LIMIT, needs_ray, until

SMALL = dataclasses.replace(
    TINY,
    name="small",
    agents=(Learner("A", BONUS), Learner("B", part("parallel", agent=part("oppo", update=STEP)))),
    episodes=60,
    seeds=3,
)


@pytest.mark.slow
def test_one_job_and_two_jobs_give_the_same_bytes(tmp_path):
    one, two = tmp_path / "one", tmp_path / "two"
    assert execute(SMALL, one, jobs=1) == (0, 6, [])
    run(SMALL, two, jobs=2)
    assert len(files(one)) == 2 * 6  # rows and checksums
    assert files(one) == files(two)
    assert execute(SMALL, two, jobs=2) == (6, 0, [])


def traced(path):
    """Delays that are read from a file."""

    def waits():
        return bl.delays.trace(np.loadtxt(path, skiprows=1))

    return part(waits)


def unlink_before_the_runs(path, monkeypatch):
    """Remove a file once everything has been built for a check."""
    opened = store.open_for

    def open_for(*given):
        path.unlink()
        opened(*given)

    monkeypatch.setattr(store, "open_for", open_for)


@needs_ray
@pytest.mark.filterwarnings("ignore")
@pytest.mark.long
def test_ray_gives_the_same_bytes_and_names_runs_that_raise(tmp_path, monkeypatch):
    trace = tmp_path / "delays.csv"
    trace.write_text("delay\n" + "1\n" * 60)
    cases = (Case("fine"), Case("broken", delays=traced(trace)))
    experiment = dataclasses.replace(SMALL, cases=cases)
    run(experiment, tmp_path / "one", jobs=2)
    unlink_before_the_runs(trace, monkeypatch)
    _, done, failed = execute(experiment, tmp_path / "ray", jobs=2, engine="ray")
    assert done == 6
    assert {o.task.case for o in failed} == {"broken"}
    assert all("delays.csv" in o.reason for o in failed)
    one, ray = files(tmp_path / "one"), files(tmp_path / "ray")
    assert ray == {name: content for name, content in one.items() if name.startswith("fine")}


@needs_ray
@pytest.mark.filterwarnings("ignore")
@pytest.mark.long
def test_ray_tries_again_when_a_worker_dies(tmp_path):
    long = dataclasses.replace(SMALL, episodes=4000, seeds=1)
    stop = threading.Event()
    killer = threading.Thread(target=kill_ray_worker, args=(stop,))
    killer.start()
    results = {o.task.name: o.rows for o in outcomes(long, long.tasks(), 1, "ray")}
    killed = stop.is_set()
    stop.set()
    killer.join()
    assert killed
    assert results == {task.name: perform(long, task)[0] for task in long.tasks()}


def kill_ray_worker(stop):
    """Kill the first worker of this process's Ray that is seen at work, then set `stop`."""
    ours = os.getpid()
    while not stop.is_set():
        for process in descendants(ours):
            command = Path(f"/proc/{process}/cmdline")
            try:
                if b"ray::PoolActor.run_batch" in command.read_bytes():
                    time.sleep(0.3)
                    os.kill(process, signal.SIGKILL)
                    stop.set()
                    return
            except OSError:
                continue
        time.sleep(0.02)


def descendants(process):
    """The descendants of a process, from /proc of Linux."""
    found = []
    for task in Path(f"/proc/{process}/task").glob("*/children"):
        try:
            children = [int(child) for child in task.read_text().split()]
        except OSError:
            continue
        for child in children:
            found += [child, *descendants(child)]
    return found


@contextlib.contextmanager
def cluster_of_two(directory):
    """A Ray cluster of two nodes on loopback, with a token of its own; yields its environment."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    env = {**os.environ, "RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}
    command = [os.path.join(os.path.dirname(sys.executable), "ray"), "start", "--block",
               "--node-ip-address=127.0.0.1", "--num-cpus=1", "--disable-usage-stats"]  # fmt: skip
    head = ["--head", f"--port={address.split(':')[1]}", "--include-dashboard=false",
            f"--temp-dir={directory}"]  # fmt: skip
    nodes = []
    try:
        for options in (head, [f"--address={address}"]):
            nodes.append(
                subprocess.Popen(
                    [*command, *options],
                    env=env,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    start_new_session=True,
                )
            )
            wait_for_nodes(address, env, len(nodes))
        yield {**env, "RAY_ADDRESS": address}
    finally:
        for node in nodes:
            for process in descendants(node.pid):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(process, signal.SIGKILL)
            node.kill()
            node.wait()


def wait_for_nodes(address, env, number):
    code = (
        "import ray, sys; ray.init(sys.argv[1], logging_level='error'); "
        "print(sum(node['Alive'] for node in ray.nodes()))"
    )
    host, port = address.split(":")

    def up():
        with contextlib.suppress(OSError):
            socket.create_connection((host, int(port))).close()
            done = subprocess.run(
                [sys.executable, "-c", code, address],
                check=False, env=env, capture_output=True, text=True, timeout=LIMIT,
            )  # fmt: skip
            return done.returncode == 0 and int(done.stdout.split()[-1]) >= number
        return False

    until(up, f"no cluster of {number} nodes at {address}", pause=0.2)


@needs_ray
@pytest.mark.long
def test_ray_uses_the_running_cluster_at_its_address(tmp_path):
    run(SMALL, tmp_path / "local")
    (tmp_path / "small.toml").write_text(toml.dumps(SMALL))
    command = [sys.executable, "-m", "belated", "run", "small.toml", "--engine", "ray"]
    with (
        tempfile.TemporaryDirectory(prefix="ray-") as short,  # paths of sockets must be short
        cluster_of_two(short) as env,
    ):
        done = subprocess.run(
            [*command, "--jobs", "2", "--out", "ray"],
            check=False, env=env, cwd=tmp_path, capture_output=True, text=True, timeout=LIMIT,
        )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert files(tmp_path / "ray") == files(tmp_path / "local")


@needs_ray
def test_a_cluster_that_cannot_be_reached_is_said_in_one_line(tmp_path, monkeypatch):
    import ray

    def refuse(address, **options):
        raise ConnectionError("no token\nand more")

    with socket.socket() as port:
        port.bind(("127.0.0.1", 0))
        monkeypatch.setenv("RAY_ADDRESS", f"127.0.0.1:{port.getsockname()[1]}")
        with pytest.raises(ValueError, match=r"RAY_ADDRESS must be .*'127.*Connection refused"):
            run(SMALL, tmp_path / "out", engine="ray")
        port.listen()
        monkeypatch.setattr(ray, "init", refuse)
        with pytest.raises(ValueError, match=r"RAY_ADDRESS must be .*got '127[^\n]*: no token$"):
            run(SMALL, tmp_path / "out", engine="ray")


def test_ray_missing_is_said_in_one_line(tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "ray", None)
    with pytest.raises(ValueError, match=r"needs the package ray: pip install 'belated\[ray\]'"):
        run(SMALL, tmp_path, engine="ray")


@pytest.mark.slow
def test_a_run_that_raises_is_named_and_the_others_finish(tmp_path, monkeypatch):
    trace = tmp_path / "delays.csv"
    trace.write_text("delay\n" + "1\n" * 60)
    cases = (Case("fine"), Case("broken", delays=traced(trace)))
    experiment = dataclasses.replace(SMALL, cases=cases, seeds=1)
    out = tmp_path / "out"
    with monkeypatch.context() as patched:
        unlink_before_the_runs(trace, patched)
        _, _, failed = execute(experiment, out, jobs=2)
    assert sorted(o.task.name for o in failed) == ["broken/a/seed-0", "broken/b/seed-0"]
    assert all("delays.csv" in o.reason and "\n" not in o.reason for o in failed)
    assert "Traceback" in (out / "failed" / "broken" / "a" / "seed-0.txt").read_text()
    assert store.rows(out)["case"].unique().to_list() == ["fine"]
    trace.write_text("delay\n" + "1\n" * 60)
    assert execute(experiment, out) == (2, 2, [])


def outcomes_of(experiment, tasks, jobs):
    return list(outcomes(experiment, tasks, jobs))


def workers(of=None):
    """The processes of joblib below this one that have begun to work."""
    found = []
    for process in descendants(of or os.getpid()):
        with contextlib.suppress(OSError):
            command = Path(f"/proc/{process}/cmdline").read_bytes()
            if b"loky.backend.popen_loky" in command:
                found.append(process)
    return found


def kill_children(often, stop, ready):
    """Kill workers of this process while `ready()`, at most `often` times."""
    killed = 0
    while killed < often and not stop.is_set():
        with ready() as now:
            for child in workers() if now else ():
                if killed < often:
                    os.kill(child, signal.SIGKILL)
                    killed += 1
        time.sleep(0.02)


@contextlib.contextmanager
def killing(often, ready=lambda: contextlib.nullcontext(True)):
    stop = threading.Event()
    killer = threading.Thread(target=kill_children, args=(often, stop, ready))
    killer.start()
    try:
        yield
    finally:
        stop.set()
        killer.join()


@pytest.mark.parametrize("deaths", [1, 2] if FULL else [2])
@pytest.mark.slow
def test_a_worker_that_dies_is_replaced_and_its_run_tried_again(deaths):
    with killing(deaths):
        outcomes = outcomes_of(SMALL, SMALL.tasks()[:2], jobs=1)
    assert [o.task for o in outcomes] == SMALL.tasks()[:2]
    assert all(o.rows is not None for o in outcomes)


def stuck(begun):
    """Delays that are never drawn: a worker notes that it has begun, and waits to be killed."""

    def wait():
        begun.touch()
        time.sleep(10 * LIMIT)

    return part(wait)


@contextlib.contextmanager
def noted(begun):
    """Whether a worker waits to be killed."""
    found = begun.exists()
    begun.unlink(missing_ok=True)
    yield found


@pytest.mark.long
def test_a_run_whose_workers_always_die_is_given_up(tmp_path):
    begun = tmp_path / "begun"
    waits = dataclasses.replace(SMALL, delays=stuck(begun))
    with killing(10**9, lambda: noted(begun)):
        (outcome,) = outcomes_of(waits, waits.tasks()[:1], jobs=1)
    assert outcome.rows is None
    assert outcome.reason.startswith("its worker died 3 times (TerminatedWorkerError: A worker")


@pytest.mark.long
def test_the_others_finish_where_the_workers_of_one_run_always_die(tmp_path):
    begun = tmp_path / "begun"
    cases = (Case("waits", delays=stuck(begun)), Case("fine"))
    experiment = dataclasses.replace(SMALL, cases=cases, agents=SMALL.agents[:1], seeds=2)
    with killing(10**9, lambda: noted(begun)):
        outcomes = outcomes_of(experiment, experiment.tasks(), jobs=1)
    finished = {o.task.name: o.rows is not None for o in outcomes}
    assert finished == {
        "waits/a/seed-0": False, "fine/a/seed-0": True,
        "waits/a/seed-1": False, "fine/a/seed-1": True,
    }  # fmt: skip


@pytest.mark.slow
def test_a_worker_that_dies_while_all_is_built_is_named_by_its_run(tmp_path):
    def dies(brief):
        os.kill(os.getpid(), signal.SIGKILL)

    agents = (SMALL.agents[0], Learner("dies", part(dies)))
    experiment = dataclasses.replace(
        SMALL, agents=agents, cases=(Case("first"),), seeds=1, first_seed=7
    )
    before, finished, (failed,) = execute(experiment, tmp_path / "out", jobs=2)
    assert (before, finished) == (0, 1)
    assert failed.task.name == "first/dies/seed-7"
    assert failed.reason.startswith("its worker died 3 times")
    with pytest.raises(RunsFailed, match="1 of 2 runs failed, the first, first/dies/seed-7: its w"):
        run(experiment, tmp_path / "out", jobs=2)


@pytest.mark.slow
def test_what_cannot_be_sent_to_workers_begins_nothing(tmp_path):
    lock = threading.Lock()

    def locked(brief):
        with lock:
            return bl.DelayedOPPO(brief.problem)

    unsent = dataclasses.replace(TINY, agents=(Learner("locked", part(locked)),))
    with pytest.raises(ValueError, match="Could not pickle"):
        execute(unsent, tmp_path / "out", jobs=2)
    assert not (tmp_path / "out").exists()


def test_workers_end_when_their_parent_is_killed(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "import dataclasses\n"
        "from pathlib import Path\n"
        "from belated.lab import named, run\n"
        "long = dataclasses.replace(named('paper-grid'), episodes=10**6)\n"
        "run(long, Path('out'), jobs=2)\n"
    )
    with subprocess.Popen([sys.executable, script.name], cwd=tmp_path) as process:
        until(lambda: len(workers(process.pid)) == 2)
        found = workers(process.pid)
        process.kill()
    until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in found))


@pytest.mark.long
def test_a_script_needs_no_guard_and_may_give_its_own_functions(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "import belated as bl\n"
        "from belated.lab import run\n"
        "share = 0.25\n"
        "def delays():\n"
        "    return bl.delays.lost(share, bl.delays.none())\n"
        "run(None, 'out', jobs=2, environment='bandit_lower_bound', delays=delays,\n"
        "    agents={'mine': lambda told: bl.recommend(told.problem, information='full')},\n"
        "    episodes=6, seeds=2)\n".replace("'bandit_lower_bound'", "{'kind': 'chain'}")
    )
    done = subprocess.run(
        [sys.executable, script.name], check=False, cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert len(list((tmp_path / "out").rglob("*.parquet"))) == 2


@pytest.mark.long
def test_stopping_early_leaves_no_process_behind():
    found = outcomes(SMALL, SMALL.tasks(), 2)
    next(found)
    assert workers()
    found.close()
    until(lambda: not workers())


def test_a_wrong_specification_leaves_nothing_behind(tmp_path):
    wrong = dataclasses.replace(SMALL, delays=traced(tmp_path / "none.csv"))
    with pytest.raises(ValueError, match=r"none\.csv"):
        run(wrong, tmp_path / "out", jobs=2)
    assert not (tmp_path / "out").exists()
    assert not workers()


def test_ray_reports_nothing_to_its_makers(monkeypatch):
    """The variable that turns usage reports off is set while Ray starts, and no longer."""
    seen = []

    def init(address, **options):
        seen.append(os.environ.get("RAY_USAGE_STATS_ENABLED"))
        raise RuntimeError("enough")

    ray = types.ModuleType("ray")
    ray.init, ray.shutdown, ray.is_initialized = init, lambda: None, lambda: False
    ray.exceptions = types.SimpleNamespace(RayError=OSError)
    backend = types.ModuleType("ray.util.joblib.ray_backend")
    backend.RayBackend = object
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    monkeypatch.delenv("RAY_USAGE_STATS_ENABLED", raising=False)
    monkeypatch.setitem(sys.modules, "ray", ray)
    monkeypatch.setitem(sys.modules, backend.__name__, backend)
    with pytest.raises(RuntimeError, match="enough"):
        list(outcomes(SMALL, SMALL.tasks(), 1, "ray"))
    assert seen == ["0"]
    assert "RAY_USAGE_STATS_ENABLED" not in os.environ
