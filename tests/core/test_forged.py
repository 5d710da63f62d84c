"""A forged file with a valid checksum may hold wrong numbers, but it never crashes a process."""

import json
import subprocess
import sys
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

import belated as bl
import forging
from belated.core.tree import freeze, thaw
from forging import MAKERS
from limits import FULL
from registry import AGENTS

FILES = 5500 if FULL else 250


@pytest.mark.slow
def test_thousands_of_forged_files_crash_nothing(tmp_path):
    """The files are read in another process: a segmentation fault there is only a failure."""
    script = Path(__file__).parents[1] / "forging.py"
    done = subprocess.run(
        [sys.executable, str(script), str(FILES), "13"],
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["wrong"] == []
    outcome = found["outcome"]
    assert sum(outcome.values()) == FILES
    assert outcome["refused"] > 0.5 * FILES  # most changes did change something
    assert outcome["the same"] > 0.05 * FILES
    assert len(found["kinds"]) == len(set(forging.CHANGES))


def saved(tmp_path, name):
    where = forging.world()
    agent = AGENTS[name](where)
    forging.play(agent, bl.DelayLine(), np.random.default_rng(1), 7, where)
    bl.save(agent, tmp_path / "agent")
    return forging.Forged((tmp_path / "agent").read_bytes())


def refusal(tmp_path, file):
    (tmp_path / "forged").write_bytes(file.content())
    with pytest.raises(bl.SavedFileError) as caught:
        bl.load(tmp_path / "forged")
    assert "\n" not in str(caught.value)
    return str(caught.value)


def learned(file):
    return file.header["tree"]["learned"]


def test_a_huge_number_of_episodes_does_not_keep_skipping_busy(tmp_path):
    file = saved(tmp_path, "skipping known full")
    inside = learned(file)["agent"]["learned"]
    inside["_ledger"]["learned"]["begun"] = 10**15
    assert "kept_from must have followed begun" in refusal(tmp_path, file)


def test_the_ledger_and_the_agent_inside_count_the_same_episodes(tmp_path):
    file = saved(tmp_path, "pipeline known full")
    learned(file)["_ledger"]["learned"]["begun"] += 1
    assert "begun must be 8 for the agent inside too, got 7" in refusal(tmp_path, file)


def test_successors_that_are_listed_twice_are_refused(tmp_path):
    """The count of a new successor would look for a free slot for ever."""
    where = forging.world()
    agent = AGENTS["ucbvi"](where)
    forging.play(agent, bl.DelayLine(), np.random.default_rng(1), 7, where)
    counts = agent._model.counts
    row = np.argwhere(counts.known > 1)[0]
    counts.successors[tuple(row)][1] = counts.successors[tuple(row)][0]
    bl.save(agent, tmp_path / "agent")
    with pytest.raises(bl.SavedFileError, match="successors must be listed once in a row"):
        bl.load(tmp_path / "agent")


def test_many_agents_that_share_one_array_take_no_memory(tmp_path):
    """A file of 2 MB would otherwise make 2,000 agents of 2 MB each."""
    where = bl.environments.random_mdp(states=500, actions=10, horizon=50)
    agent = bl.wrappers.Bold(lambda: bl.DelayedOPPO(where.problem, update=bl.parts.Softmax(0.1)))
    agent.begin_episode()
    bl.save(agent, tmp_path / "agent")
    file = forging.Forged((tmp_path / "agent").read_bytes())
    copies = learned(file)["agents"]["list"]
    copies += [copies[0]] * 2000
    tracemalloc.start()
    assert "must have an array of its own" in refusal(tmp_path, file)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2**30


def test_two_agents_of_one_tree_are_independent():
    for name, make in MAKERS.items():
        where = forging.world(name)
        agent, line = make(where), bl.DelayLine()
        forging.play(agent, line, np.random.default_rng(1), 7, where)
        tree = freeze(agent)
        first, second, third = (thaw(tree) for _ in range(3))
        expected = forging.play(first, bl.DelayLine(), np.random.default_rng(2), 3, where)
        for other in (second, third):
            found = forging.play(other, bl.DelayLine(), np.random.default_rng(2), 3, where)
            assert found == expected, name


def test_a_file_says_what_it_was_written_with(tmp_path, monkeypatch):
    with monkeypatch.context() as patched:
        patched.setattr(bl, "__version__", "0.9")
        file = saved(tmp_path, "oppo known full anytime")
    assert file.header["belated"] == "0.9"
    bl.load(tmp_path / "agent")
    learned(file)["_explored"] = -1
    assert refusal(tmp_path, file).endswith(f"(written by belated '0.9', this is {bl.__version__})")
