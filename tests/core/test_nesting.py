"""Every wrapper inside every wrapper works correctly or is refused in one sentence."""

import numpy as np
import pytest

import belated as bl
from belated.parts import Softmax
from belated.wrappers import Bold, Doubling, Lazy, Locked, Parallel, Pipeline, Skipping

WORLD = bl.environments.random_mdp(3, 2, 2, seed=0)
DELAY = 3


def plain():
    return bl.DelayedOPPO(WORLD.problem, update=Softmax(0.3))


WRAPPERS = {
    "Skipping": lambda make: Skipping(make(), 5),
    "Pipeline": lambda make: Pipeline(make(), 4),
    "Parallel": lambda make: Parallel(make, 5),
    "Bold": Bold,
    "Doubling": lambda make: Doubling(make()),
    "Lazy": lambda make: Lazy(make(), 1),
    "Inbox": lambda make: bl.Inbox(make()),
    "Inbox deadline": lambda make: bl.Inbox(make(), deadline=20),
    "Inbox hold": lambda make: bl.Inbox(make(), deadline=5, hold=True),
    "Locked": lambda make: Locked(make()),
}
ONCE = {(name, name) for name in ("Pipeline", "Lazy", "Locked")}
INBOXES = [name for name in WRAPPERS if name.startswith("Inbox")]
ONCE |= {(outer, inner) for outer in INBOXES for inner in INBOXES}
LOOKS = ("Skipping", "Pipeline", "Parallel", "Bold", "Doubling", "Inbox deadline", "Inbox hold")
REFUSED = {
    **{(outer, "Locked"): "belongs outside of all other wrappers" for outer in WRAPPERS},
    **{("Doubling", inner): "has no setting, restart" for inner in WRAPPERS if inner != "Locked"},
    **{("Lazy", inner): f"put {inner.split()[0]} outside" for inner in LOOKS},
    ("Inbox hold", "Pipeline"): "which takes at most 4; put Pipeline outside",
    **dict.fromkeys(ONCE, "is enough"),
}


@pytest.mark.parametrize("inner", WRAPPERS)
@pytest.mark.parametrize("outer", WRAPPERS)
def test_a_wrapper_inside_a_wrapper(outer, inner):
    """Fixed delays of 3 episodes are within all limits: every record is used."""

    def make():
        return WRAPPERS[outer](lambda: WRAPPERS[inner](plain))

    if (outer, inner) in REFUSED:
        with pytest.raises(ValueError, match=REFUSED[outer, inner]) as refused:
            make()
        assert "\n" not in str(refused.value)
        return
    agent, rng, line, K = make(), np.random.default_rng(0), bl.DelayLine(), 80
    policies = []
    for k in range(K):
        policy = agent.begin_episode().policy
        policies.append(policy)
        line.push([WORLD.mdp.play(policy, rng, k), bl.Costs(k, WORLD.costs.at(k))], DELAY)
        agent.observe(line.release(k))
    told = agent.diagnostics()
    assert told["begun"] == K
    assert told.get("late", 0) == told.get("inbox_late", 0) == 0
    assert told.get("skipped", 0) == 0 or inner == "Doubling"  # it skips by its phase's threshold
    assert told.get("inbox_forgotten", 0) == 0
    assert told["forgotten"] == 0
    assert len(agent.open_episodes()) <= 3 + DELAY * ("hold" in outer + inner)
    assert not np.array_equal(policies[0], policies[-1])
    if outer == "Bold" and inner in ("Skipping", "Inbox", "Inbox deadline"):
        assert told["copies"] == DELAY + 1


def test_what_is_deeper_inside_counts_too():
    with pytest.raises(ValueError, match="put Skipping outside"):
        Lazy(bl.Inbox(Skipping(plain(), 3)), 1)
    with pytest.raises(ValueError, match="put Bold outside"):
        Lazy(Bold(plain), 1)
    with pytest.raises(ValueError, match="put Inbox outside"):
        Lazy(bl.Inbox(plain(), deadline=20), 1)
    with pytest.raises(ValueError, match="at most 2; put Skipping outside"):
        Pipeline(Skipping(plain(), 2), 3)


def test_what_was_skipped_outside_of_a_pipeline_is_used_in_time():
    """Episodes older than the threshold are forgotten; records that a pipeline holds are not."""
    agent, rng = Skipping(Pipeline(plain(), 6), 2), np.random.default_rng(0)
    for k in range(20):
        policy = agent.begin_episode().policy
        agent.observe([WORLD.mdp.play(policy, rng, k), bl.Costs(k, WORLD.costs.at(k))])
    assert agent.agent.agent.diagnostics()["used"] == 13
