"""The memory of a learner does not grow with its episodes, though some never report."""

import gc

import numpy as np
import pytest

from belated.core import stored
from belated.service import snapshot
from belated.service.episodes import Books
from belated.service.recovery import Restored, happen
from belated.service.wire import Begun, Decided, End, Fed
from belated.service.worker import Pupil
from belated.tabular.records import Costs, StepCost
from serving import ROBOT, SHOP, config, learner

BLOCK = 100
TIMED = {**SHOP, "deadline_seconds": 40.0}
COUNTED = {**ROBOT, "deadline_episodes": 40}
del TIMED["deadline_episodes"]


def played(restored, rng, k, late):
    """An episode, and feedback of earlier ones, some of it twice; one in twenty never reports."""
    H, S, _ = restored.books.terms.problem.shape
    at = float(k)
    happen(restored, Begun(at, k, restored.pupil.learned, f"visitor {k}", ""))
    for h in range(H):
        happen(restored, Decided(at, k, h, 0, int(rng.integers(2)), 0.5))
    if rng.random() >= 0.05:
        late.append([*(StepCost(k, h, float(rng.random())) for h in range(H)), End(k, S - 1)])
    while len(late) > 20:
        records = tuple(late.pop(int(rng.integers(10))))
        for _ in range(1 + (rng.random() < 0.1)):
            happen(restored, Fed(at, records))
    happen(restored, Fed(at, (Costs(k // 2, rng.random(H)),)))  # closed long ago
    restored.pupil.learn_up_to(restored.pupil.learned + len(restored.pupil.waiting))


def state(pupil):
    return stored.kept(pupil.agent), pupil.learned, pupil.unused


@pytest.mark.parametrize("item", [TIMED, COUNTED], ids=["seconds", "episodes"])
def test_nothing_grows_with_the_episodes(tmp_path, monkeypatch, item):
    monkeypatch.setattr("belated.service.episodes.HISTORY", 100)
    table = config(tmp_path, learners=[{**item, "default": 1.0, "remember": 60}])
    made = learner(table, item["name"])
    restored = Restored(Books(made.terms()), Pupil(made.fresh()))
    rng, late = np.random.default_rng(0), []
    sizes, objects = [], []
    for block in range(4):
        for k in range(block * BLOCK, (block + 1) * BLOCK):
            played(restored, rng, k, late)
        gc.collect()
        objects.append(len(gc.get_objects()))
        pieces = snapshot.write(snapshot.Moment(1, 1, restored.books, [], *state(restored.pupil)))
        sizes.append(sum(len(content) for _, content, _ in pieces))
    counts = restored.books.inbox.counts()
    assert counts["forgotten"] + counts["defaulted"] > 0.02 * 4 * BLOCK
    assert counts["duplicate"] > 0
    assert counts["late"] > BLOCK
    assert len(restored.books.open) < 80
    assert sizes[-1] < 1.1 * sizes[1]
    assert objects[-1] < objects[1] + BLOCK // 4
