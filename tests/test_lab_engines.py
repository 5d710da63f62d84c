"""Engines: the same rows whichever is used, dead workers tried again, failures by name."""

import dataclasses
import importlib.util
import multiprocessing
import os
import signal
import threading
import time
from pathlib import Path

import pytest

from belated.lab import store, sweep
from belated.lab.engines import cluster, local
from belated.lab.parts import part
from belated.lab.runs import perform
from belated.lab.spec import Case, Experiment, Learner

SMALL = Experiment(
    name="small",
    environment=part("gridworld", size=4, horizon=8),
    delays=part("geometric", mean=3),
    agents=(
        Learner("A", part("oppo", learning_rate=0.1, optimism="bonus")),
        Learner("B", part("parallel", agent=part("oppo", learning_rate=0.1))),
    ),
    episodes=60,
    seeds=3,
)


def files(directory):
    runs = directory / "runs"
    return {str(p.relative_to(runs)): p.read_bytes() for p in runs.rglob("*") if p.is_file()}


def test_one_job_and_two_jobs_give_the_same_bytes(tmp_path):
    one, two = tmp_path / "one", tmp_path / "two"
    assert sweep.run(SMALL, one, jobs=1) == sweep.Sweep(0, 6, ())
    sweep.run(SMALL, two, jobs=2)
    assert len(files(one)) == 6 + 2  # rows, and the policies of the first seed
    assert files(one) == files(two)
    assert sweep.run(SMALL, two, jobs=2) == sweep.Sweep(6, 0, ())


needs_ray = pytest.mark.skipif(
    importlib.util.find_spec("ray") is None, reason="needs ray: pip install 'belated[ray]'"
)


@needs_ray
@pytest.mark.filterwarnings("ignore")
def test_ray_gives_the_same_bytes_and_names_runs_that_raise(tmp_path):
    trace = tmp_path / "delays.csv"
    trace.write_text("delay\n" + "1\n" * 60)
    cases = (Case("fine"), Case("broken", delays=part("trace", delays=str(trace))))
    experiment = dataclasses.replace(SMALL, cases=cases)
    sweep.run(experiment, tmp_path / "one", jobs=2)
    done = sweep.run(
        experiment, tmp_path / "ray", jobs=2, engine="ray", begun=lambda left: trace.unlink()
    )
    assert done.done == 6
    assert {o.task.case for o in done.failed} == {"broken"}
    assert all("delays.csv" in o.reason for o in done.failed)
    one, ray = files(tmp_path / "one"), files(tmp_path / "ray")
    assert ray == {name: content for name, content in one.items() if name.startswith("fine")}


@needs_ray
@pytest.mark.filterwarnings("ignore")
def test_ray_tries_again_when_a_worker_dies(tmp_path):
    long = dataclasses.replace(SMALL, episodes=4000, seeds=1)
    outcomes = cluster.run(long, long.tasks(), jobs=1)
    stop = threading.Event()
    killer = threading.Thread(target=kill_ray_worker, args=(stop,))
    killer.start()
    results = {o.task.name: o.result for o in outcomes}
    killed = stop.is_set()
    stop.set()
    killer.join()
    assert killed
    assert results == {task.name: perform(long, task) for task in long.tasks()}


def kill_ray_worker(stop):
    """Kill the first worker of this process's Ray that is seen at work, then set `stop`."""
    ours = os.getpid()
    while not stop.is_set():
        for process in descendants(ours):
            command = Path(f"/proc/{process}/cmdline")
            try:
                if b"ray::attempt" in command.read_bytes():
                    time.sleep(0.3)
                    os.kill(process, signal.SIGKILL)
                    stop.set()
                    return
            except OSError:
                continue
        time.sleep(0.02)


def descendants(process):
    """Processes below a process, from Linux's /proc."""
    found = []
    for task in Path(f"/proc/{process}/task").glob("*/children"):
        try:
            children = [int(child) for child in task.read_text().split()]
        except OSError:
            continue
        for child in children:
            found += [child, *descendants(child)]
    return found


def test_ray_missing_is_said_in_one_line(tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "ray", None)
    with pytest.raises(ValueError, match=r"needs the package ray: pip install 'belated\[ray\]'"):
        sweep.run(SMALL, tmp_path, engine="ray")


def test_a_run_that_raises_is_named_and_the_others_finish(tmp_path):
    trace = tmp_path / "delays.csv"
    trace.write_text("delay\n" + "1\n" * 60)
    cases = (Case("fine"), Case("broken", delays=part("trace", delays=str(trace))))
    experiment = dataclasses.replace(SMALL, cases=cases, seeds=1)
    out = tmp_path / "out"
    done = sweep.run(experiment, out, jobs=2, begun=lambda left: trace.unlink())
    assert sorted(o.task.name for o in done.failed) == ["broken/a/seed-0", "broken/b/seed-0"]
    assert all("delays.csv" in o.reason and "\n" not in o.reason for o in done.failed)
    assert "Traceback" in (out / "failed" / "broken" / "a" / "seed-0.txt").read_text()
    assert store.rows(out)["case"].unique().to_list() == ["fine"]
    trace.write_text("delay\n" + "1\n" * 60)
    assert sweep.run(experiment, out) == sweep.Sweep(2, 2, ())


def kill_children(often, stop):
    killed = 0
    while killed < often and not stop.is_set():
        for child in multiprocessing.active_children():
            if killed < often:
                child.kill()
                killed += 1
        time.sleep(0.02)


@pytest.mark.parametrize("deaths", [1, 2])
def test_a_worker_that_dies_is_replaced_and_its_run_tried_again(deaths):
    stop = threading.Event()
    killer = threading.Thread(target=kill_children, args=(deaths, stop))
    killer.start()
    outcomes = list(local.run(SMALL, SMALL.tasks()[:2], jobs=1))
    stop.set()
    killer.join()
    assert [o.task for o in outcomes] == SMALL.tasks()[:2]
    assert all(o.result is not None for o in outcomes)


def test_a_run_whose_workers_always_die_is_given_up(tmp_path):
    stop = threading.Event()
    killer = threading.Thread(target=kill_children, args=(10**9, stop))
    killer.start()
    outcomes = list(local.run(SMALL, SMALL.tasks()[:1], jobs=1))
    stop.set()
    killer.join()
    (outcome,) = outcomes
    assert outcome.result is None
    assert outcome.reason == "its worker died 3 times (exit code -9)"


def test_stopping_early_leaves_no_process_behind():
    outcomes = local.run(SMALL, SMALL.tasks(), jobs=2)
    next(outcomes)
    outcomes.close()
    assert not multiprocessing.active_children()
