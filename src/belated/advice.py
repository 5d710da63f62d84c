"""Which agent should I use?

With aim="practice", the default, the answer is an agent that learns from a few thousand episodes
and needs no tuning: a planner. With aim="guarantee" it is the paper's agent for the
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

import math
import textwrap
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, overload

from belated import parts, wrappers
from belated.core import checks
from belated.core.contract import PATHS, Agent, Information, nested
from belated.core.tree import parameters
from belated.evaluation.verdict import proof
from belated.linear.choice import Choice
from belated.linear.sampler import LinearSampler
from belated.onehot import TableSampler
from belated.tabular.informed import InformedPlanner
from belated.tabular.oppo import DelayedOPPO
from belated.tabular.parts.transitions import CONFIDENCE
from belated.tabular.planner import DelayedPlanner
from belated.tabular.problem import Problem
from belated.tabular.transitions import Transitions
from belated.tabular.ucbvi import DelayedUCBVI, UCBVISetting

WIDTH = 88


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
        said = [f"Use   {self.call}", f"Why   {self.reason}", *map("Mind  {}".format, self.notes)]
        return "\n".join(textwrap.fill(text, WIDTH, subsequent_indent=" " * 6) for text in said)

    __repr__ = __str__


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

    For a `Choice`: the settings of a `LinearSampler`, such as `silence`, the outcome of decisions
    that never report, 0 by default, or None if all report; `changes`, whether outcomes may change
    over time; `floor`, the probability that is divided equally among the actions; `holdout`, the
    share of the decisions that are made at random, for an unbiased comparison. `prove_within`, a
    number of decisions, asks for the floor, or for a first phase of equal shares, that proves by
    then that the best action is better by `difference`, where a share `rate` of the decisions
    reports and a report is about `amount`.
    For a `Problem`: the keywords of `belated.advice.tabular`.

    Example:
        >>> advice = bl.advise(bl.Problem(states=3, actions=2, horizon=4), information='bandit')
        >>> type(advice.make()).__name__ == advice.name
        True
    """
    makers: list[Any] = [decisions, LinearSampler] if isinstance(problem, Choice) else [tabular]
    allowed = [p.name for one in makers for p in parameters(one) if p.kind is p.KEYWORD_ONLY]
    for name in known:
        checks.choice("keyword", name, allowed)
    return makers[0](problem, **known)  # type: ignore[no-any-return]


def decisions(
    choice: Choice,
    *,
    prove_within: int | None = None,
    difference: float | None = None,
    rate: float | None = None,
    amount: float = 1.0,
    **settings: Any,
) -> Advice:
    """The learner for a choice, with settings of a `LinearSampler`; see `advise`."""
    plan = ""
    if prove_within is not None:
        settings["floor"], plan = proof(choice.actions, prove_within, difference, rate, amount)
    make = partial(LinearSampler, choice, **settings)
    agent = make()
    model = "one model for all actions" if choice.shared else "one model per action"
    meaning = "every outcome reports"
    if agent.silence is not None:
        meaning = f"a decision that does not report has the outcome {agent.silence:g} in the end"
    reason = (
        f"It learns {model} from what should have come by now: {meaning}. Delays are estimated "
        "from the reports, outcomes may have any unit, and the probabilities are exact."
    )
    notes = {
        plan: plan != "",
        "If failures report too, say silence=None: then nothing needs to be concluded from "
        "silence.": agent.silence is not None,
        "If nothing changes over time, changes=False keeps all decisions and tests for no "
        "change.": agent.changes,
        "A change that is faster than several delays cannot be followed.": agent.changes,
        "changes=False keeps all decisions: a change is followed slowly.": not agent.changes,
        "floor=0.05 makes logs that can judge other policies; 0.01 costs less and says less.": (
            agent.floor < 0.05 and not agent.holdout
        ),
        "Call observe([]) when nothing has come: ages run to the last observe.": True,
    }
    return _advice(make, reason, notes)


def _advice(make: Callable[[], Agent], reason: str, notes: Mapping[str, bool]) -> Advice:
    """Advice for an agent, with those of the notes that apply."""
    agent = make()
    classes = [type(one).__name__ for one in nested(agent)]
    name = "(".join(classes) + ")" * (len(classes) - 1)
    return Advice(name, repr(agent), reason, tuple(note for note in notes if notes[note]), make)


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
        checks.instance("transitions", transitions, Transitions, ", or None")
    checks.choice("information", information, ("full", "bandit"))
    checks.choice("paths", paths, PATHS)
    checks.choice("costs", costs, ("adversarial", "stochastic"))
    checks.choice("aim", aim, ("practice", "guarantee"))
    silence = None if silence is None else checks.real("silence", silence, 0.0, 1.0)
    seed = checks.integer("seed", seed, 0, 2**64 - 1)
    stochastic = costs == "stochastic"
    known: dict[str, Any] = {
        "in_order": checks.flag("in_order", in_order),
        "episodes": checks.episodes(episodes),
        "total_delay": total_delay
        if total_delay is None
        else checks.real("total_delay", total_delay, 0.0),
        "max_delay": math.inf if max_delay is None else checks.real("max_delay", max_delay, 0.0),
    }
    full = information == "full"
    notes = {
        "Nothing needs to be done about lost feedback: episodes that are overdue no longer "
        "count as missing. agent.forget(episode) frees the memory of one that will not "
        "report.": checks.flag("lost", lost),
        "Silence is information here. Decide after how long an episode has failed, and then "
        "observe the cost function that stands for a failure; do not forget it. Forgotten "
        "failures make every learner prefer what reports least.": silence is not None and full,
        "Silence is information here: put the agent into bl.Inbox(agent, deadline=W, "
        f"default={silence or 0.0:g}, hold=True) with a deadline W that nearly all successes keep. "
        "hold=True hands every outcome over at its deadline, so that successes that come early "
        "do not mislead. Forgotten failures make every learner prefer what reports "
        "least.": silence is not None and not full,
    }
    if aim == "guarantee":
        return _guarantee(problem, transitions, paths, full, stochastic, notes=notes, **known)
    if silence is not None and not full and problem.horizon == 1:
        return _one_step(problem, silence, not stochastic, seed)
    how = "it plans with memories of several lengths, weighted by what they predicted"
    if full:
        how += ", and regret matching+ beside it, weighted by what each would have cost"
    reason = (
        f"It learns in practice: {how}. It needs neither K nor delays, and has no regret bound for "
        'unknown transitions or bandit feedback; aim="guarantee" gives agents that have one.'
    )
    agent = InformedPlanner if full else DelayedPlanner
    make = partial(agent, problem, transitions=transitions, changing=not stochastic, seed=seed)
    return _advice(make, reason, notes)


def _guarantee(
    problem: Problem,
    transitions: Transitions | None,
    paths: str,
    full: bool,
    stochastic: bool,
    *,
    notes: Mapping[str, bool],
    in_order: bool,
    episodes: int | None,
    total_delay: float | None,
    max_delay: float,
) -> Advice:
    """The paper's agent; see `advise`."""
    unknown = transitions is None
    model = parts.Confidence(episodes=episodes) if transitions is None else transitions
    late = unknown and paths == "late"
    totals = None if episodes is None or total_delay is None else (episodes, total_delay)
    mean_delay = 0.0 if totals is None else totals[1] / totals[0]
    optimistic, arms = stochastic and not full, not full and problem.is_arms
    given: dict[str, Any] = {}
    wrapper: Callable[[Agent], Agent] | None = None
    if optimistic:
        many = problem.actions > 2 * math.log(math.prod(problem.shape) / CONFIDENCE.delta)
        explores = unknown and many and max_delay < math.inf
        setting: Any = UCBVISetting(paths=paths, explores=explores)
        given["costs"] = parts.Averaged()
        reason = "It plans optimistically on what was observed; its regret does not grow with D"
        if explores:
            given["explore"] = parts.FewVisits(max_delay=max_delay)
            reason += "; there are many actions, so explicit exploration wastes less of it"
    else:
        explores = full and late and not in_order
        if not full:  # the phases replace the numbers from the start
            number = None if arms else 1.0
            given = {"costs": parts.Weighted(number), "update": parts.Softmax(number)}
        if explores:
            given["explore"] = parts.FewVisits(max_delay=1.0)
        # Under full information, paths in order are as good as paths at once.
        when = "at once" if full and in_order else paths
        setting = DelayedOPPO(problem, transitions=model, **given).setting(when)
        it = "This is delayed EXP3: it" if arms else "It"
        if totals is not None:
            tuned = setting.at(problem, *totals)
            rate, reason = tuned.learning_rate, f"{it} is tuned for K and D"
            if explores:
                given["explore"] = parts.FewVisits(max_delay=min(max_delay, tuned.threshold))
                reason += "; explicit exploration follows the largest delay that counts"
            elif full:
                rate *= math.sqrt(math.log(problem.actions))
                reason += ", and the largest delay plays no role"
            else:
                given["costs"] = parts.Weighted(tuned.exploration or None)
            given["update"] = parts.Softmax(rate)
            if tuned.threshold > mean_delay and max_delay > 2 * tuned.threshold:
                wrapper = partial(wrappers.Skipping, threshold=tuned.threshold)
                reason += "; feedback beyond the threshold costs more than it gives"
        elif arms or (full and not explores):
            reason = f"{it} has an anytime step size, which needs neither K nor D"
        else:
            wrapper = partial(wrappers.Doubling, paths=paths)
            reason = "Step size, exploration and skipping follow the phases; K and D are not needed"

    def make() -> Agent:
        agent = DelayedUCBVI if optimistic else DelayedOPPO
        inside = agent(problem, transitions=model, **given)
        return inside if wrapper is None else wrapper(inside)

    kind = "is below" if setting.exact else "without its constants and logarithms is below"
    known = (
        "if nothing is late; with delays it takes longer: episodes and total_delay say how long"
        if totals is None
        else f"(at a mean delay of {mean_delay:g})"
    )
    useful = setting.useful_from(problem, mean_delay)
    bound = f"Its regret bound {kind} the trivial H K from K = {useful:,} on {known}"
    anytime = totals is None and wrapper is None and not optimistic
    later = not (full or stochastic or (arms and problem.states == 1))
    faster = (
        "UOBREPS, whose form for delays is a reconstruction with an unproved bound, smaller in H, "
        "learned faster."
        if unknown
        else "DelayedFTRL has a rate that is smaller in H, and learned faster with its tuning for "
        "practice, which has no bound."
    )
    about = {
        "The anytime step size stops counting episodes that are overdue. To the bound, each of "
        "them adds at most H, and H (H + 1) / 2 more if it reports after all.": anytime and full,
        "The bound is for runs in which no episode becomes overdue: the anytime step size stops "
        "counting those.": anytime and not full,
        "The paper states this bound for its own phases, Doubling(literal=True), which start anew "
        "every time and count lost feedback for ever. For the phases here, which stop counting "
        "episodes that are overdue, it is not proved.": totals is None and wrapper is not None,
        "That feedback keeps its order does not help under bandit feedback: an episode is weighted "
        "with the counts of its start, and what was missing then stays "
        "missing.": in_order and late and not full,
        "Feedback that keeps its order needs no explicit exploration and no skipping, and the "
        "bound is that of paths that come at once. This holds only while nothing "
        "overtakes.": in_order and late and full,
        **notes,
        "belated.wrappers.Lazy(agent, alpha) plans less often, with a bound for random "
        "delays.": optimistic,
        "belated.ZimmertSeldin(problem) has the best known bound for arms, 4 sqrt(A K) + "
        "sqrt(8 D ln A) in expectation, and needs neither K nor "
        "D.": arms and not stochastic and problem.states == 1,
        "belated.DAPO has a bound of order sqrt(K + D), which is unproved where feedback of "
        "several episodes arrives together, and learns slowly with the rates of "
        f"belated.tuning.dapo(problem, episodes, total_delay); belated.{faster}": later,
    }
    return _advice(make, f"{reason}. {bound}.", about)


def _one_step(problem: Problem, silence: float, changes: bool, seed: int) -> Advice:
    """The agent for a table of one step where silence says something."""
    reason = (
        f"It learns from what should have come by now: an episode that does not report costs "
        f"{silence:g} in the end. Delays are estimated from the reports. It is the learner for "
        "decisions with features, and a state is a feature; it has no regret bound."
    )
    notes = {
        "Silence is information here, and needs no deadline: do not forget what has not reported, "
        "and call observe([]) when nothing has come, because ages run to the last observe.": True,
        "If failures report too, leave silence out: then the planner learns, which needs nothing "
        "to be concluded from silence.": True,
        "A change that is faster than several delays cannot be followed.": True,
        'If nothing changes over time, costs="stochastic" keeps all episodes and tests for no '
        "change.": changes,
    }
    make = partial(TableSampler, problem, silence=silence, changes=changes, seed=seed)
    return _advice(make, reason, notes)
