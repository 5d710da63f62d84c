"""Which agent should I use?

With aim="practice", the default, the answer is an agent that learns from a few thousand episodes
and needs no tuning: `practice.practical`. With aim="guarantee" it is the paper's agent for the
setting:

    setting                                              agent
    full information, known transitions                  DelayedOPPO
    full information, unknown, paths at once             DelayedOPPO
    the same, paths late, delays in order                DelayedOPPO
    full information, unknown, paths late                DelayedOPPO with explicit exploration,
                                                         in Skipping (D known) or Doubling (not)
    bandit, one step from one state                      DelayedOPPO: delayed EXP3
    bandit, K and D known                                DelayedOPPO, in Skipping if that helps
    bandit, K or D not known                             DelayedOPPO in Doubling
    bandit, costs from fixed laws                        DelayedUCBVI, with explicit exploration
                                                         where the largest delay is known and
                                                         there are many actions

Step sizes come from `tuning` if K and D are known; otherwise from the anytime rule or from phases.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, overload

from belated.core import checks
from belated.core.contract import PATHS, Agent, Information, nested
from belated.core.wrappers.skipping import Skipping
from belated.linear.advice import explained, recommended
from belated.linear.choice import Choice
from belated.linear.sampler import LinearSampler
from belated.onehot import TableSampler
from belated.sequences import needed
from belated.tabular.doubling import Doubling
from belated.tabular.oppo import DelayedOPPO
from belated.tabular.parts.costs import Averaged, Weighted
from belated.tabular.parts.explore import FewVisits
from belated.tabular.parts.transitions import CONFIDENCE, Confidence
from belated.tabular.parts.update import Softmax
from belated.tabular.practice import practical
from belated.tabular.problem import Problem
from belated.tabular.transitions import Transitions
from belated.tabular.tuning import (
    Arms,
    BanditFeedback,
    FullInformation,
    Parameters,
    Setting,
    oppo_full,
)
from belated.tabular.ucbvi import DelayedUCBVI, UCBVISetting

WIDTH = 88
POWER = 0.8416
"""The normal quantile of 80 %."""


@dataclass(frozen=True, slots=True, eq=False)
class Advice:
    """An agent, the reason for it, and what to be aware of. It prints as readable text.

    Attributes:
        name: the classes of the agent.
        call: the call that makes the agent.
        reason: why this agent is recommended.
        notes: what to be aware of, a sentence or two each.
        make: a function that makes a fresh agent.
    """

    name: str
    call: str
    reason: str
    notes: tuple[str, ...]
    make: Callable[[], Agent]

    def __str__(self) -> str:
        lines = [
            *_wrapped("Use   ", self.call),
            *_wrapped("Why   ", self.reason),
            *(line for note in self.notes for line in _wrapped("Mind  ", note)),
        ]
        return "\n".join(lines)

    __repr__ = __str__


def _wrapped(label: str, text: str) -> list[str]:
    return textwrap.wrap(text, WIDTH, initial_indent=label, subsequent_indent=" " * len(label))


@overload
def recommend(problem: Problem, **known: Any) -> Agent: ...
@overload
def recommend(problem: Choice, **known: Any) -> LinearSampler: ...
def recommend(problem: Problem | Choice, **known: Any) -> Agent | LinearSampler:
    """The agent for a setting; takes the same arguments as `advise`.

    Example:
        >>> agent = bl.recommend(bl.Problem(states=3, actions=2, horizon=4))
        >>> agent.begin_episode().policy.shape
        (4, 3, 2)
    """
    return advise(problem, **known).make()


def advise(problem: Problem | Choice, **known: Any) -> Advice:
    """Name the agent for a setting, the reason for it, and what to be aware of.

    For a `Choice`: `silence`, the outcome of decisions that never report, 0 by default, or None if
    all report; `changes`, whether outcomes may change over time; `floor`, the probability that is
    divided equally among the actions; `holdout`, the share of the decisions that are made at
    random, for an unbiased comparison; `seed`. `prove_within`, a number of decisions, asks for the
    floor, or for a first phase of equal shares, that proves by then that the best action is better
    by `difference`, where a share `rate` of the decisions reports and a report is about `amount`.
    For a `Problem`: the keywords of `belated.advice.tabular`.

    Example:
        >>> advice = bl.advise(bl.Problem(states=3, actions=2, horizon=4), information='bandit')
        >>> type(advice.make()).__name__ == advice.name
        True
    """
    told: Callable[..., Advice] = decisions if isinstance(problem, Choice) else tabular
    if "only_successes" in known:
        raise ValueError(
            "only_successes is called silence now: say silence=1.0, the cost of an episode that "
            "never reports"
        )
    for name in known:
        checks.choice("keyword", name, getattr(told, "__kwdefaults__", None) or ())
    return told(problem, **known)


def decisions(
    choice: Choice,
    *,
    silence: float | None = 0.0,
    changes: bool = True,
    floor: float = 0.01,
    holdout: float = 0.0,
    seed: int = 0,
    prove_within: int | None = None,
    difference: float | None = None,
    rate: float | None = None,
    amount: float = 1.0,
) -> Advice:
    """The learner for a choice; see `advise`."""
    plan: tuple[str, ...] = ()
    if prove_within is not None:
        floor, plan = _proof(choice, prove_within, difference, rate, amount)
    given: dict[str, Any] = {"silence": silence, "changes": changes, "floor": floor}
    given |= {"holdout": holdout, "seed": seed}

    def make() -> Any:
        return recommended(choice, **given)

    call = repr(make())  # checks the arguments
    reason, notes = explained(choice, **given)
    return Advice("LinearSampler", call, reason, (*plan, *notes), make)


def _proof(
    choice: Choice, prove_within: object, difference: object, rate: object, amount: object
) -> tuple[float, tuple[str, ...]]:
    """The floor, or the first phase of equal shares, that proves a difference; see `advise`."""
    within = checks.integer("prove_within", prove_within, 1, checks.MOST)
    if choice.actions is None or choice.actions < 2:
        raise ValueError("prove_within must be None unless there are two listed actions or more")
    size = checks.real("amount", amount, 0.0, above=True)
    gap = checks.real("difference", difference, 0.0, above=True) / size
    r = checks.real("rate", rate, 0.0, 1.0, above=True)
    K, square = choice.actions, r * (1.0 - r)

    def decisions(floor: float) -> float:
        loser = floor / K
        return needed(gap, square, (1.0 - floor + loser, loser), 0.05 / K, luck=POWER)

    phase = math.ceil(min(decisions(1.0), 1e15))
    if phase > within:
        raise ValueError(
            f"prove_within must be at least {phase:,} for a difference of {difference:g}: so many "
            f"decisions prove it with equal shares, got {within:,}"
        )
    floor = next(f / 100.0 for f in range(1, 101) if decisions(f / 100.0) <= within)
    lost, phased = floor * within, phase + 0.01 * (within - phase)
    each = (K - 1) / K * gap * size
    rest = "The answer is agent.verdict(window=..., range=...); four proofs of five come in time."
    if phased < lost:
        return 1.0, (
            f"Equal shares (floor=1) prove a difference of {difference:g} within about {phase:,} "
            f"decisions; then agent.change(floor=0.01). That costs about {phased * each:.3g}; a "
            f"floor of {floor:g} all the time costs {lost * each:.3g}. {rest}",
        )
    return floor, (
        f"A floor of {floor:g} proves a difference of {difference:g} within {within:,} decisions. "
        f"That costs about {lost * each:.3g}; equal shares for {phase:,} decisions first cost "
        f"{phased * each:.3g}. {rest}",
    )


def tabular(
    problem: Problem,
    *,
    information: Information = "bandit",
    transitions: Transitions | None = None,
    paths: str = "late",
    costs: str = "adversarial",
    episodes: int | None = None,
    total_delay: float | None = None,
    max_delay: float | None = None,
    in_order: bool = False,
    lost: bool = False,
    silence: float | None = None,
    aim: str = "practice",
    seed: int = 0,
) -> Advice:
    """The agent for a problem with states; see `advise`.

    Args:
        problem: states, actions, horizon, start.
        information: "bandit" (only suffered costs are observed) or "full" (whole cost functions).
        transitions: the dynamics, if known.
        paths: whether trajectories arrive "late", with the costs, or "at once".
        costs: "adversarial": they may change in any way; or "stochastic": drawn from fixed
            distributions.
        episodes: K, if known.
        total_delay: D, if known.
        max_delay: the largest delay, if known.
        in_order: whether feedback arrives in the order of the episodes, as with a constant delay.
        lost: whether some feedback never arrives.
        silence: the cost, in [0, 1], of an episode that never reports, such as 1.0 where only
            successes report; None if silence has no meaning.
        aim: "practice", or "guarantee" for the paper's agents with their bounds.
        seed: the seed of agents that draw; others ignore it.
    """
    checks.instance("problem", problem, Problem)
    if transitions is not None:
        checks.instance(
            "transitions", transitions, Transitions, " such as Transitions.from_dense(p), or None"
        )
    checks.choice("information", information, ("full", "bandit"))
    checks.choice("paths", paths, PATHS)
    checks.choice("costs", costs, ("adversarial", "stochastic"))
    checks.choice("aim", aim, ("practice", "guarantee"))
    in_order = checks.flag("in_order", in_order)
    known = _Known(
        problem,
        information,
        transitions,
        paths,
        in_order,
        costs == "stochastic",
        None if episodes is None else checks.integer("episodes", episodes, 1, checks.MOST),
        None if total_delay is None else checks.real("total_delay", total_delay, 0.0),
        None if max_delay is None else checks.real("max_delay", max_delay, 0.0),
    )
    lost = checks.flag("lost", lost)
    silence = None if silence is None else checks.real("silence", silence, 0.0, 1.0)
    seed = checks.integer("seed", seed, 0, 2**64 - 1)
    notes = _notes(information, lost, silence)
    if aim == "practice":
        if silence is not None and information == "bandit" and problem.horizon == 1:
            return _one_step(known, silence, seed)
        return _practice(known, notes, seed)
    choice = _guarantee(known)
    useful = choice.setting.useful_from(problem, known.mean_delay)
    kind = "is below" if choice.setting.exact else "without its constants and logarithms is below"
    bound = f"Its regret bound {kind} the trivial H K from K = {useful:,} on"
    if known.has_totals:
        bound += f" (at a mean delay of {known.mean_delay:g})"
    else:
        bound += (
            " if nothing is late; with delays it takes longer, and episodes and total_delay say"
        )
        bound += " how long"
    if choice.caveat:
        notes = (choice.caveat, *notes)
    if in_order and transitions is None and paths == "late":
        notes = (IN_ORDER if information == "full" else IN_ORDER_BANDIT, *notes)
    if information == "bandit":
        notes = (*notes, _later(known))
    agent = choice.make()
    classes = [type(one).__name__ for one in nested(agent)]
    name = "(".join(classes) + ")" * (len(classes) - 1)
    return Advice(name, repr(agent), f"{choice.reason}. {bound}.", notes, choice.make)


@dataclass(frozen=True, slots=True, eq=False)
class _Known:
    """The arguments of `advise`."""

    problem: Problem
    information: Information
    transitions: Transitions | None
    paths: str
    in_order: bool
    stochastic: bool
    episodes: int | None
    total_delay: float | None
    max_delay: float | None

    @property
    def has_totals(self) -> bool:
        """Whether K and D are known."""
        return self.episodes is not None and self.total_delay is not None

    @property
    def mean_delay(self) -> float:
        """D / K; 0 if they are not known."""
        if self.episodes is None or self.total_delay is None:
            return 0.0
        return self.total_delay / self.episodes

    @property
    def dynamics(self) -> str:
        """Whether the transitions are known."""
        return "unknown" if self.transitions is None else "known"

    @property
    def model(self) -> Transitions | Confidence:
        """The transitions of an agent: those known, or a confidence set."""
        if self.transitions is None:
            return Confidence(episodes=self.episodes)
        return self.transitions

    @property
    def setting(self) -> Setting:
        """The row of tuning of Delayed OPPO, without explicit exploration."""
        if self.information == "full":
            return FullInformation(paths=self.paths, dynamics=self.dynamics, in_order=self.in_order)
        if self.problem.is_arms:
            return Arms(paths=self.paths)
        return BanditFeedback(paths=self.paths, dynamics=self.dynamics)

    def tuned(self, setting: Setting) -> Parameters | None:
        """The parameters of a setting for K and D, if both are known."""
        if self.episodes is None or self.total_delay is None:
            return None
        return setting.at(self.problem, self.episodes, self.total_delay)


@dataclass(frozen=True, slots=True, eq=False)
class _Choice:
    make: Callable[[], Agent]
    reason: str
    setting: Setting
    caveat: str = ""


OVERDUE = (
    "The anytime step size stops counting episodes that are overdue. To the bound, each of them "
    "adds at most H, and H (H + 1) / 2 more if it reports after all."
)
OVERDUE_ARMS = (
    "The bound is for runs in which no episode becomes overdue: the anytime step size stops "
    "counting those."
)
PHASES = (
    "The paper states this bound for its own phases, Doubling(literal=True), which start anew "
    "every time and count lost feedback for ever. For the phases here, which stop counting "
    "episodes that are overdue, it is not proved."
)
IN_ORDER_BANDIT = (
    "That feedback keeps its order does not help under bandit feedback: an episode is weighted "
    "with the counts of its start, and what was missing then stays missing."
)
IN_ORDER = (
    "Feedback that keeps its order needs no explicit exploration and no skipping, and the bound "
    "is that of paths that come at once. This holds only while nothing overtakes."
)


def _later(known: _Known) -> str:
    """Agents of later papers for bandit feedback."""
    if known.stochastic:
        return (
            "belated.wrappers.Lazy(agent, alpha) plans less often, with a bound for random delays."
        )
    if known.problem.is_arms and known.problem.states == 1:
        return (
            "belated.ZimmertSeldin(problem) has the best known bound for arms, 4 sqrt(A K) + "
            "sqrt(8 D ln A) in expectation, and needs neither K nor D."
        )
    dapo = (
        "belated.DAPO has a bound of order sqrt(K + D), which is unproved where feedback of "
        "several episodes arrives together, and learns slowly with the rates of "
        "belated.tuning.dapo(problem, episodes, total_delay)"
    )
    if known.transitions is None:
        return (
            f"{dapo}; belated.UOBREPS, whose form for delays is a reconstruction with an unproved "
            "bound, smaller in H, learned faster."
        )
    return (
        f"{dapo}; belated.DelayedFTRL has a rate that is smaller in H, and learned faster with its "
        "tuning for practice, which has no bound."
    )


def _notes(information: Information, lost: bool, silence: float | None) -> tuple[str, ...]:
    notes = []
    if lost:
        notes.append(
            "Nothing needs to be done about lost feedback: episodes that are overdue no longer "
            "count as missing. agent.forget(episode) frees the memory of one that will not report."
        )
    if silence is not None and information == "full":
        notes.append(
            "Silence is information here. Decide after how long an episode has failed, and then "
            "observe the cost function that stands for a failure; do not forget it. Forgotten "
            "failures make every learner prefer what reports least."
        )
    elif silence is not None:
        notes.append(
            "Silence is information here: put the agent into bl.Inbox(agent, deadline=W, "
            f"default={silence:g}, hold=True) with a deadline W that nearly all successes keep. "
            "hold=True hands every outcome over at its deadline, so that successes that come early "
            "do not mislead. Forgotten failures make every learner prefer what reports least."
        )
    return tuple(notes)


def _one_step(known: _Known, silence: float, seed: int) -> Advice:
    """The agent for a table of one step where silence says something."""

    def make() -> Agent:
        changes = not known.stochastic
        return TableSampler(known.problem, silence=silence, changes=changes, seed=seed)

    reason = (
        f"It learns from what should have come by now: an episode that does not report costs "
        f"{silence:g} in the end. Delays are estimated from the reports. It is the learner for "
        "decisions with features, and a state is a feature; it has no regret bound."
    )
    notes = [
        "Silence is information here, and needs no deadline: do not forget what has not reported, "
        "and call observe([]) when nothing has come, because ages run to the last observe.",
        "If failures report too, leave silence out: then the planner learns, which needs nothing "
        "to be concluded from silence.",
        "A change that is faster than several delays cannot be followed.",
    ]
    if not known.stochastic:
        notes.append(
            'If nothing changes over time, costs="stochastic" keeps all episodes and tests for no '
            "change."
        )
    return Advice("TableSampler", repr(make()), reason, tuple(notes), make)


def _practice(known: _Known, notes: tuple[str, ...], seed: int) -> Advice:
    def make() -> Agent:
        changing = not known.stochastic
        return practical(
            known.problem, known.information, known.transitions, changing=changing, seed=seed
        )

    how = "it plans with memories of several lengths, weighted by what they predicted"
    if known.information == "full":
        how += ", and regret matching+ beside it, weighted by what each would have cost"
    reason = (
        f"It learns in practice: {how}. It needs neither K nor delays, and has no regret bound for "
        'unknown transitions or bandit feedback; aim="guarantee" gives agents that have one.'
    )
    agent = make()
    return Advice(type(agent).__name__, repr(agent), reason, notes, make)


def _guarantee(known: _Known) -> _Choice:
    bandit = known.information == "bandit"
    if bandit and known.stochastic:
        return _stochastic(known)
    tuned = known.tuned(known.setting)
    if bandit and known.problem.is_arms:
        reason = "This is delayed EXP3; its anytime step size needs neither K nor D"
        if tuned is None:
            return _oppo(known, reason, known.setting, OVERDUE_ARMS, costs=Weighted())
        update = Softmax(tuned.learning_rate)
        reason = "This is delayed EXP3, tuned for K and D"
        return _oppo(known, reason, known.setting, costs=Weighted(), update=update)
    if bandit:
        return _bandit(known, tuned)
    if known.transitions is None and known.paths == "late" and not known.in_order:
        return _late_paths(known)
    reason = "The anytime step size needs neither K nor D, and the largest delay plays no role"
    if known.episodes is None or known.total_delay is None:
        return _oppo(known, reason, known.setting, OVERDUE)
    update = Softmax(
        **oppo_full(known.problem, known.episodes, known.total_delay, log_actions=True)
    )
    reason = "It is tuned for K and D, and the largest delay plays no role"
    return _oppo(known, reason, known.setting, update=update)


def _oppo(
    known: _Known,
    reason: str,
    setting: Setting,
    caveat: str = "",
    wrapped: Callable[[DelayedOPPO], Agent] | None = None,
    **parts: Any,
) -> _Choice:
    """The agent of the paper, in a wrapper if one is given."""

    def make() -> Agent:
        agent = DelayedOPPO(known.problem, transitions=known.model, **parts)
        return agent if wrapped is None else wrapped(agent)

    return _Choice(make, reason, setting, caveat)


def _skipping(
    known: _Known, tuned: Parameters, reason: str, setting: Setting, **parts: Any
) -> _Choice:
    """The agent inside Skipping, unless that would skip too much or nothing."""
    K, D, beta = known.episodes or 0, known.total_delay or 0.0, tuned.threshold
    if beta * K <= D or (known.max_delay is not None and known.max_delay <= 2 * beta):
        return _oppo(known, reason, setting, **parts)
    reason += "; feedback beyond the threshold costs more than it gives"
    return _oppo(known, reason, setting, wrapped=lambda inside: Skipping(inside, beta), **parts)


def _doubling(known: _Known, reason: str, setting: Setting, **parts: Any) -> _Choice:
    def wrapped(inside: DelayedOPPO) -> Agent:
        return Doubling(inside, paths=known.paths)

    return _oppo(known, reason, setting, PHASES, wrapped, **parts)


def _bandit(known: _Known, tuned: Parameters | None) -> _Choice:
    if tuned is None:
        reason = "Step size, exploration and skipping follow the phases; K and D are not needed"
        return _doubling(known, reason, known.setting, costs=Weighted(1.0), update=Softmax(1.0))
    parts = {"costs": Weighted(tuned.exploration), "update": Softmax(tuned.learning_rate)}
    return _skipping(known, tuned, "It is tuned for K and D", known.setting, **parts)


def _late_paths(known: _Known) -> _Choice:
    setting = FullInformation(paths=known.paths, dynamics=known.dynamics, explores=True)
    tuned = known.tuned(setting)
    if tuned is None:
        # the phases replace the threshold of explicit exploration from the start
        reason = "Step size, skipping and explicit exploration follow the phases"
        return _doubling(known, reason, setting, explore=FewVisits(max_delay=1.0))
    largest = tuned.threshold if known.max_delay is None else min(known.max_delay, tuned.threshold)
    reason = "It is tuned for K and D; explicit exploration follows the largest delay that counts"
    parts = {"update": Softmax(tuned.learning_rate), "explore": FewVisits(max_delay=largest)}
    return _skipping(known, tuned, reason, setting, **parts)


def _stochastic(known: _Known) -> _Choice:
    problem = known.problem
    reason = "It plans optimistically on what was observed; its regret does not grow with D"
    explore = None
    rows = problem.horizon * problem.states * problem.actions
    many = problem.actions > 2 * math.log(rows / CONFIDENCE.delta)
    if known.transitions is None and known.max_delay is not None and many:
        explore = FewVisits(max_delay=known.max_delay)
        reason += "; there are many actions, so explicit exploration wastes less of it"

    def make() -> Agent:
        return DelayedUCBVI(problem, transitions=known.model, costs=Averaged(), explore=explore)

    return _Choice(make, reason, UCBVISetting(paths=known.paths, explores=explore is not None))
