"""A model of the API, compared with the application: outcomes, keys, restarts."""

import shutil
import tempfile
from pathlib import Path
from typing import ClassVar

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from serving import InProcess, full, same_from_snapshot_and_rows

H, S, A = 2, 2, 2
LEARNER = {
    "name": "toy",
    "problem": {"states": S, "actions": A, "horizon": H},
    "agent": {"kind": "oppo", "costs": "averaged", "update": "softmax"},
}
COSTS = (0.0, 0.25, 1.0)


class Played:
    """The state of an episode in the model."""

    def __init__(self):
        self.open = True
        self.overdue = False
        self.decided = {}
        self.costs = {}
        self.end = None
        self.path = None

    def complete(self):
        """Close the episode once the path and all costs are there."""
        if self.path is None and len(self.decided) == H and self.end is not None:
            states, actions = zip(*(self.decided[h] for h in range(H)), strict=True)
            self.path = ([*states, self.end], list(actions))
        if self.path is not None and len(self.costs) == H:
            self.open = False


class Model(RuleBasedStateMachine):
    """Steps that are still silent after six episodes cost 0.5."""

    terms: ClassVar = {"deadline_episodes": 6, "default": 0.5}

    def __init__(self):
        super().__init__()
        self.directory = Path(tempfile.mkdtemp())
        learners = [{**LEARNER, **self.terms}]
        self.table = {"learners": learners, "storage": str(self.directory), "port": 0}
        self.episodes = []
        self.keys = {}
        self.enter()

    def enter(self):
        self.client = InProcess(self.table)

    def post(self, path, body):
        return self.client.post(f"/v1/learners/toy/{path}", json=body)

    @rule(key=st.none() | st.sampled_from("abcdefgh"))
    def begin(self, key):
        answer = self.post("episodes", {"key": key}).json()
        if key in self.keys:
            assert answer == {"episode": self.keys[key], "created": False}
            return
        number = len(self.episodes)
        assert answer == {"episode": number, "created": True}
        if key is not None:
            self.keys[key] = number
        self.episodes.append(Played())
        late = number - self.terms["deadline_episodes"] - 1
        if late >= 0:
            self.episodes[late].overdue = True
        late -= self.terms.get("grace", 0)
        if late >= 0:
            self.episodes[late].open = False

    @rule(number=st.integers(0, 12), step=st.integers(0, H), state=st.integers(0, S))
    def decide(self, number, step, state):
        answer = self.post("decide", {"episode": number, "step": step, "state": state})
        told = answer.json()
        if step >= H or state >= S:
            assert (answer.status_code, told["outcome"]) == (422, "invalid")
        elif number >= len(self.episodes):
            assert (answer.status_code, told["outcome"]) == (404, "unknown")
        elif not self.episodes[number].open:
            assert (answer.status_code, told["outcome"]) == (410, "late")
        elif step == 0 and state != 0:
            assert (answer.status_code, told["outcome"]) == (422, "invalid")
        else:
            played = self.episodes[number]
            known = played.decided.get(step)
            if known is not None and known[0] != state:
                assert (answer.status_code, told["outcome"]) == (409, "conflict")
                return
            assert answer.status_code == 200
            assert known is None or known == (state, told["action"])
            assert 0 < told["probability"] <= 1
            played.decided[step] = (state, told["action"])
            played.complete()

    def expected(self, number, known, value):
        if number >= len(self.episodes):
            return "unknown"
        if known is not None:
            return "duplicate" if known == value else "conflict"
        played = self.episodes[number]
        return "taken" if played.open and not played.overdue else "late"

    @rule(number=st.integers(0, 12), step=st.integers(0, H), cost=st.sampled_from((*COSTS, 2.0)))
    def cost(self, number, step, cost):
        answer = self.post("feedback", {"episode": number, "step": step, "cost": cost})
        told = answer.json()
        if step >= H or cost > 1:
            assert (answer.status_code, told["outcome"]) == (422, "invalid")
            return
        played = self.episodes[number] if number < len(self.episodes) else Played()
        outcome = self.expected(number, played.costs.get(step), cost)
        assert told["outcome"] == outcome, told
        assert answer.status_code == told["status"]
        assert told.get("used") == (played.open if outcome == "late" else None)
        if outcome in ("taken", "late"):
            played.costs[step] = cost
            played.complete()

    @rule(number=st.integers(0, 12), state=st.integers(0, S))
    def end(self, number, state):
        told = self.post("feedback", {"episode": number, "end": state}).json()
        if state >= S:
            assert told["outcome"] == "invalid"
            return
        played = self.episodes[number] if number < len(self.episodes) else Played()
        outcome = self.expected(number, played.end, state)
        assert told["outcome"] == outcome, told
        if outcome in ("taken", "late"):
            played.end = state
            played.complete()

    @rule(data=st.data(), number=st.integers(0, 8))
    def batch(self, data, number):
        """The costs of an episode twice over, in any order: each step is taken once."""
        steps = data.draw(st.permutations([*range(H)] * 2))
        played = self.episodes[number] if number < len(self.episodes) else Played()
        records = [{"episode": number, "step": h, "cost": 0.25} for h in steps]
        told = self.post("feedback/batch", {"records": records}).json()["outcomes"]
        for h, outcome in zip(steps, told, strict=True):
            want = self.expected(number, played.costs.get(h), 0.25)
            assert outcome["outcome"] == want
            if want in ("taken", "late"):
                played.costs[h] = 0.25
                played.complete()

    @rule(number=st.integers(0, 12))
    def forget(self, number):
        answer = self.client.delete(f"/v1/learners/toy/episodes/{number}")
        if number >= len(self.episodes):
            assert answer.status_code == 404
            return
        want = "taken" if self.episodes[number].open else "duplicate"
        assert answer.json()["outcome"] == want
        self.episodes[number].open = False

    @rule(crash=st.booleans())
    def restart(self, crash):
        """Stop and start; a crash puts back the files from just before the stop."""
        if crash:
            left = Path(tempfile.mkdtemp())
            for suffix in ("sqlite", "sqlite-wal"):
                shutil.copy(self.directory / f"toy.{suffix}", left)
        self.client.close()
        if crash:
            shutil.rmtree(self.directory)
            left.rename(self.directory)
        self.enter()

    @invariant()
    def the_open_episodes_are_those_of_the_model(self):
        told = self.client.get("/v1/learners/toy/episodes").json()["episodes"]
        assert [(e["episode"], e["overdue"]) for e in told] == [
            (i, played.overdue) for i, played in enumerate(self.episodes) if played.open
        ]

    def teardown(self):
        self.client.close()
        same_from_snapshot_and_rows(self.table, "toy")
        shutil.rmtree(self.directory)


class WithGrace(Model):
    """Episodes are overdue after two others, and forgotten after five."""

    terms: ClassVar = {"deadline_episodes": 2, "grace": 3}


TestModel = pytest.mark.slow(Model.TestCase)
TestGrace = pytest.mark.slow(WithGrace.TestCase)
TestModel.settings = TestGrace.settings = settings(
    max_examples=100 if full() else 5, stateful_step_count=25, deadline=None
)
