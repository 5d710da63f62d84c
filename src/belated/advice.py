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
from functools import partial
from typing import Any, overload

from belated.core import checks
from belated.core.contract import PATHS, Agent, Information, nested
from belated.core.wrappers.skipping import Skipping
from belated.linear.advice import explained
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

    make = partial(LinearSampler, choice, **given)
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
    silence = None if silence is None else checks.real("silence", silence, 0.0, 1.0)
    seed = checks.integer("seed", seed, 0, 2**64 - 1)
    if total_delay is not None:
        total_delay = checks.real("total_delay", total_delay, 0.0)
    known: dict[str, Any] = {
        "information": information,
        "transitions": transitions,
        "paths": paths,
        "stochastic": costs == "stochastic",
        "in_order": checks.flag("in_order", in_order),
        "episodes": checks.episodes(episodes),
        "total_delay": total_delay,
        "max_delay": math.inf if max_delay is None else checks.real("max_delay", max_delay, 0.0),
    }
    notes = _notes(information, checks.flag("lost", lost), silence)
    if aim == "guarantee":
        return _guarantee(problem, notes, **known)
    if silence is not None and information == "bandit" and problem.horizon == 1:
        return _one_step(problem, silence, costs != "stochastic", seed)
    how = "it plans with memories of several lengths, weighted by what they predicted"
    if information == "full":
        how += ", and regret matching+ beside it, weighted by what each would have cost"
    reason = (
        f"It learns in practice: {how}. It needs neither K nor delays, and has no regret bound for "
        'unknown transitions or bandit feedback; aim="guarantee" gives agents that have one.'
    )
    changing = costs != "stochastic"
    make = partial(practical, problem, information, transitions, changing=changing, seed=seed)
    return Advice(type(make()).__name__, repr(make()), reason, notes, make)


def _guarantee(
    problem: Problem,
    notes: tuple[str, ...],
    *,
    information: Information,
    transitions: Transitions | None,
    paths: str,
    stochastic: bool,
    in_order: bool,
    episodes: int | None,
    total_delay: float | None,
    max_delay: float,
) -> Advice:
    """The paper's agent; see `advise`."""
    bandit = information == "bandit"
    model = Confidence(episodes=episodes) if transitions is None else transitions
    late = transitions is None and paths == "late"
    totals = None if episodes is None or total_delay is None else (episodes, total_delay)
    mean_delay = 0.0 if totals is None else totals[1] / totals[0]
    setting: Setting
    caveat = ""
    if bandit and stochastic:
        explore = _worthwhile(problem, max_delay) if transitions is None else None
        setting = UCBVISetting(paths=paths, explores=explore is not None)
        reason = "It plans optimistically on what was observed; its regret does not grow with D"
        if explore is not None:
            reason += "; there are many actions, so explicit exploration wastes less of it"
        make: Callable[[], Agent] = partial(
            DelayedUCBVI, problem, transitions=model, costs=Averaged(), explore=explore
        )
    else:
        dynamics = "unknown" if transitions is None else "known"
        if not bandit:
            explores = late and not in_order
            setting = FullInformation(
                paths=paths, dynamics=dynamics, explores=explores, in_order=in_order
            )
        elif problem.is_arms:
            setting = Arms(paths=paths)
        else:
            setting = BanditFeedback(paths=paths, dynamics=dynamics)
        make, reason, caveat = _oppo(problem, model, setting, totals, max_delay)
    useful = setting.useful_from(problem, mean_delay)
    kind = "is below" if setting.exact else "without its constants and logarithms is below"
    known = f"(at a mean delay of {mean_delay:g})"
    if totals is None:
        known = (
            "if nothing is late; with delays it takes longer: episodes and total_delay say how long"
        )
    bound = f"Its regret bound {kind} the trivial H K from K = {useful:,} on {known}"
    if in_order and late:
        notes = (IN_ORDER_BANDIT if bandit else IN_ORDER, *notes)
    if caveat:
        notes = (caveat, *notes)
    if bandit:
        notes = (*notes, _later(problem, transitions, stochastic))
    agent = make()
    classes = [type(one).__name__ for one in nested(agent)]
    name = "(".join(classes) + ")" * (len(classes) - 1)
    return Advice(name, repr(agent), f"{reason}. {bound}.", notes, make)


def _worthwhile(problem: Problem, max_delay: float) -> FewVisits | None:
    """Explicit exploration, if the largest delay is known and there are many actions."""
    rows = problem.horizon * problem.states * problem.actions
    many = problem.actions > 2 * math.log(rows / CONFIDENCE.delta)
    return FewVisits(max_delay=max_delay) if many and max_delay < math.inf else None


def _oppo(
    problem: Problem,
    model: Transitions | Confidence,
    setting: Setting,
    totals: tuple[int, float] | None,
    max_delay: float,
) -> tuple[Callable[[], Agent], str, str]:
    """Delayed OPPO, in a wrapper where that helps; the reason, and what the bound assumes."""
    arms, bandit = isinstance(setting, Arms), not isinstance(setting, FullInformation)
    explores = isinstance(setting, FullInformation) and setting.explores
    it, caveat = "This is delayed EXP3: it" if arms else "It", ""
    parts: dict[str, Any] = {}
    wrapper: Callable[[Agent], Agent] | None = None
    if totals is not None:
        tuned = setting.at(problem, *totals)
        reason = f"{it} is tuned for K and D"
        parts["update"] = Softmax(tuned.learning_rate)
        if bandit:
            parts["costs"] = Weighted(tuned.exploration or None)
        elif explores:
            parts["explore"] = FewVisits(max_delay=min(max_delay, tuned.threshold))
            reason += "; explicit exploration follows the largest delay that counts"
        else:
            parts["update"] = Softmax(**oppo_full(problem, *totals, log_actions=True))
            reason += ", and the largest delay plays no role"
        K, D = totals
        if tuned.threshold * K > D and max_delay > 2 * tuned.threshold:
            wrapper = partial(Skipping, threshold=tuned.threshold)
            reason += "; feedback beyond the threshold costs more than it gives"
    elif explores or (bandit and not arms):
        parts = {"costs": Weighted(1.0), "update": Softmax(1.0)}
        if explores:  # the phases replace its threshold from the start
            parts = {"explore": FewVisits(max_delay=1.0)}
        wrapper, caveat = partial(Doubling, paths=setting.paths), PHASES
        reason = "Step size, exploration and skipping follow the phases; K and D are not needed"
    else:
        parts, caveat = ({"costs": Weighted()}, OVERDUE_ARMS) if arms else ({}, OVERDUE)
        reason = f"{it} has an anytime step size, which needs neither K nor D"

    def make() -> Agent:
        inside = DelayedOPPO(problem, transitions=model, **parts)
        return inside if wrapper is None else wrapper(inside)

    return make, reason, caveat


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


def _later(problem: Problem, transitions: Transitions | None, stochastic: bool) -> str:
    """Agents of later papers for bandit feedback."""
    if stochastic:
        return (
            "belated.wrappers.Lazy(agent, alpha) plans less often, with a bound for random delays."
        )
    if problem.is_arms and problem.states == 1:
        return (
            "belated.ZimmertSeldin(problem) has the best known bound for arms, 4 sqrt(A K) + "
            "sqrt(8 D ln A) in expectation, and needs neither K nor D."
        )
    other = (
        "DelayedFTRL has a rate that is smaller in H, and learned faster with its tuning for "
        "practice, which has no bound"
    )
    if transitions is None:
        other = (
            "UOBREPS, whose form for delays is a reconstruction with an unproved bound, smaller in "
            "H, learned faster"
        )
    return (
        "belated.DAPO has a bound of order sqrt(K + D), which is unproved where feedback of "
        "several episodes arrives together, and learns slowly with the rates of "
        f"belated.tuning.dapo(problem, episodes, total_delay); belated.{other}."
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


def _one_step(problem: Problem, silence: float, changes: bool, seed: int) -> Advice:
    """The agent for a table of one step where silence says something."""
    make = partial(TableSampler, problem, silence=silence, changes=changes, seed=seed)
    reason = (
        f"It learns from what should have come by now: an episode that does not report costs "
        f"{silence:g} in the end. Delays are estimated from the reports. It is the learner for "
        "decisions with features, and a state is a feature; it has no regret bound."
    )
    notes: tuple[str, ...] = (
        "Silence is information here, and needs no deadline: do not forget what has not reported, "
        "and call observe([]) when nothing has come, because ages run to the last observe.",
        "If failures report too, leave silence out: then the planner learns, which needs nothing "
        "to be concluded from silence.",
        "A change that is faster than several delays cannot be followed.",
    )
    if changes:
        stays = 'If nothing changes over time, costs="stochastic" keeps all episodes and tests for '
        notes = (*notes, f"{stays}no change.")
    return Advice("TableSampler", repr(make()), reason, notes, make)
