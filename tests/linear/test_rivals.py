"""The learners that people would otherwise use for decisions, against closed forms."""

import importlib.util

import numpy as np
import pytest
from benchmarks import decision_suite
from benchmarks.rivals import DelayEM, OTFLinUCB, RidgeRival, ThompsonByHand, VowpalWabbit
from benchmarks.rivals.delay_em import to_come, weighted_survival
from benchmarks.rivals.ridge import Regression

import belated as bl
from belated.linear.choice import Choice
from belated.linear.reward import Reward

CHOICE = Choice(actions=3, features=2)
RIVALS = {
    "greedy": lambda: RidgeRival(CHOICE),
    "greedy that waits": lambda: RidgeRival(CHOICE, join="window", window=5),
    "LinUCB": lambda: RidgeRival(CHOICE, rule="ucb", scale=1.0, join="at once"),
    "Thompson": lambda: RidgeRival(CHOICE, rule="thompson", scale=0.5, join="at once"),
    "OTFLinUCB": lambda: OTFLinUCB(CHOICE, window=4),
    "by hand": lambda: ThompsonByHand(CHOICE),
    "EM, bootstrap": lambda: DelayEM(CHOICE, samples=4),
    "EM, exponential": lambda: DelayEM(CHOICE, method="exponential", bits=1),
}
if importlib.util.find_spec("vowpalwabbit") is not None:
    RIVALS["Vowpal Wabbit"] = lambda: VowpalWabbit(CHOICE, rule="squarecb")


def test_the_regression_is_ridge_regression():
    rng = np.random.default_rng(0)
    x, y, w = rng.normal(size=(30, 3)), rng.normal(size=30), rng.uniform(0.1, 2, 30)
    fit = Regression(1, 3, 0.7)
    for one, outcome, weight in zip(x, y, w, strict=True):
        fit.add(0, one, outcome, weight)
    V = 0.7 * np.eye(3) + (x * w[:, None]).T @ x
    assert np.allclose(fit.inverse[0], np.linalg.inv(V))
    means, widths = fit.predict(np.zeros(30, dtype=int), x)
    assert np.allclose(means, x @ np.linalg.solve(V, x.T @ y))
    assert np.allclose(widths**2, np.einsum("ni,ij,nj->n", x, np.linalg.inv(V), x))


@pytest.mark.parametrize("make", RIVALS.values(), ids=RIVALS.keys())
def test_rivals_decide_learn_and_repeat(make):
    world = bl.environments.conversions(actions=3, features=2, rate=0.4)
    delays = bl.delays.lost(0.1, bl.delays.geometric(3))
    first, again = (bl.simulate(world, make(), delays=delays, episodes=150) for _ in range(2))
    assert np.array_equal(first.values, again.values)
    assert first.diagnostics["used"] > 0


def test_when_a_decision_is_learned_from():
    learned = {}

    def spied(**given):
        rival = RidgeRival(Choice(actions=1), **given)
        learned[rival] = notes = []
        rival._learn = lambda x, a, outcome, weight: notes.append((outcome, weight))
        return rival, notes

    arrival, on_arrival = spied()
    window, in_window = spied(join="window", window=2)
    at_once, corrected = spied(join="at once", silence=1.0)
    for rival in (arrival, window, at_once):
        numbers = [rival.decide().number for _ in range(2)]
        rival.observe([Reward(numbers[0], 5.0, "order"), Reward(numbers[0], 5.0, "order")])
        rival.observe([Reward(numbers[0], -2.0, "refund")])
        rival.decide()
        rival.decide()
    assert on_arrival == [(5.0, 1.0)]
    assert in_window == [(3.0, 1.0), (0.0, 1.0)]
    assert corrected[2:4] == [(4.0, 0.0), (-2.0, 0.0)]
    assert corrected[:2] == corrected[4:] == [(1.0, 1.0)] * 2


def test_otf_lin_ucb_is_algorithm_1():
    """Against the text, with one model for all actions: V, B, f and the width from scratch."""
    rng = np.random.default_rng(1)
    choice, m, delta, lam = Choice(features=2), 3, 0.1, 0.5
    agent = OTFLinUCB(choice, window=m, delta=delta, lam=lam)
    played, outcomes, norms = [], {}, []
    for t in range(40):
        rows = rng.normal(size=(4, 2))
        V = lam * np.eye(2) + sum((np.outer(a, a) for a in played), np.zeros((2, 2)))
        B = sum((outcomes.get(s, 0.0) * a for s, a in enumerate(played)), np.zeros(2))
        inverse = np.linalg.inv(V)
        f = np.sqrt(lam) + np.sqrt(2 * np.log(1 / delta) + 2 * np.log((2 * lam + t) / (2 * lam)))
        width = np.sqrt(np.einsum("ni,ij,nj->n", rows, inverse, rows))
        index = rows @ inverse @ B + (2 * f + sum(norms[-m:])) * width
        decision = agent.decide(rows)
        assert decision.action == index.argmax()
        norms.append(float(np.sqrt(rows[decision.action] @ inverse @ rows[decision.action])))
        played.append(rows[decision.action])
        due, value = t - 2, float(rng.random() < 0.5)
        if due >= 0 and value:
            agent.observe([Reward(due, value)])
            outcomes[due] = value
        late = t - m - 1
        if late >= 0:
            agent.observe([Reward(late, 7.0, "late")])  # beyond the window: ignored


def test_bad_input_gets_one_sentence():
    with pytest.raises(ValueError, match='window must be given with join="window"'):
        RidgeRival(CHOICE, window=3)
    with pytest.raises(ValueError, match="rule must be one of"):
        RidgeRival(CHOICE, rule="best")
    with pytest.raises(bl.FeedbackError, match="episode must be one that was begun, got 4"):
        RidgeRival(CHOICE).observe([Reward(4, 1.0)])
    with pytest.raises(ValueError, match="problem must list its actions"):
        ThompsonByHand(Choice(features=2))


def test_vowpal_wabbit_is_told_whole_decisions():
    """The text of an example, and the label of the chosen action: cost and probability."""
    pytest.importorskip("vowpalwabbit")
    rival = VowpalWabbit(CHOICE, epsilon=0.3, join="window", window=1)
    decision = rival.decide([0.5, 0.0])
    assert decision.probabilities.sum() == pytest.approx(1.0)
    assert decision.probabilities.min() > 0.09  # a third of epsilon, or more among equals
    lines = rival._lines(np.tile([0.5, 0.0, 1.0], (3, 1)))
    assert lines == ["shared |U 0:0.5 2:1", "|A a0", "|A a1", "|A a2"]
    learned = []
    rival._vw = type("Spy", (), {"learn": lambda self, text: learned.append(text),
                                 "predict": lambda self, text: [0.2, 0.3, 0.5]})()  # fmt: skip
    rival.observe([Reward(decision.number, 2.5)])
    rival.decide([1.0, 1.0])
    rival.decide([1.0, 1.0])
    label = f"0:-2.5:{decision.probability:.6g} |A a{decision.action}"
    assert learned[0][1 + decision.action] == label
    assert sum(":" in line.split("|")[0] for line in learned[0]) == 1
    with pytest.raises(ValueError, match="join must be one of 'arrival', 'window'"):
        VowpalWabbit(CHOICE, join="at once")


def test_the_weight_of_a_silent_decision_is_bayes_rule():
    """P(success | silent) by counting: of 1,000 decisions 300 succeed, 120 of them later."""
    assert to_come(np.array([0.3]), np.array([0.4]))[0] == pytest.approx(120.0 / (700.0 + 120.0))


def test_weighted_survival_is_kaplan_meier_by_the_definition():
    rng = np.random.default_rng(2)
    delays, ages = rng.integers(1, 9, 30).astype(float), rng.integers(1, 9, 20).astype(float)
    weights = rng.random(20)
    for t in (0.5, 3.0, 8.0):
        expected = 1.0
        for s in np.unique(delays[delays <= t]):
            at_risk = (delays >= s).sum() + weights[ages >= s].sum()
            expected *= 1.0 - (delays == s).sum() / at_risk
        found = weighted_survival(delays, ages, weights, np.array([t]))[0]
        assert found == pytest.approx(expected)


@pytest.mark.parametrize("method", ["bootstrap", "exponential"])
def test_expectation_maximisation_corrects_rates_for_what_is_still_to_come(method):
    """Half of the successes are still to come; the rate of 0.3 is found within 0.05."""
    rng = np.random.default_rng(3)
    agent = DelayEM(Choice(actions=1), method=method, samples=8)
    waiting = {}
    for k in range(2000):
        number = agent.decide().number
        if rng.random() < 0.3:
            waiting.setdefault(k + int(rng.geometric(1 / 600)), []).append(Reward(number, 1.0))
        agent.observe(waiting.pop(k, []))
    agent._fit()
    if method == "bootstrap":
        assert agent._theta[:, 0, -1].mean() == pytest.approx(0.3, abs=0.08)
    else:
        wins, fails = agent._counts[:, 0, 0]
        assert wins / (wins + fails) == pytest.approx(0.3, abs=0.05)
    assert len(agent._delays) / 2000 < 0.25  # what has come by now


def test_the_experiment_of_expectation_maximisation_has_cases_and_rivals():
    experiment = decision_suite.delay_em()
    assert [agent.name for agent in experiment.agents] == [
        "recommended",
        "EM, bootstrap",
        "EM, exponential",
    ]
    assert "rare conversions" in [case.name for case in experiment.cases]
