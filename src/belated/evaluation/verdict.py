"""Which line wins: a verdict that says how sure it is.

One definition throughout: the value of an action is its expected outcome for all visitors, with
features averaged over the visitors that came, given everything that has reported so far. `leads`
and `at_stake` are about this posterior at this moment; `difference` and `winner` are confidence
sequences over the decisions whose outcomes are final, so that they stay valid at every look: they
assume that the window is long enough, and no drift by which lines differ.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import ROUND_CEILING, ROUND_HALF_EVEN, Context

import numpy as np

from belated.core import checks
from belated.core.arrays import Floats
from belated.evaluation.sequences import Contest, Interval, needed

DRAWS = 4096
SPANS = (
    ("seconds", 86400.0, 86400.0, "days"),
    ("days", 14.0, 7.0, "weeks"),
    ("weeks", 104.0, 52.18, "years"),
)
"""Units of time, from how many on a larger one is used, its size and its name."""
Z = 1.959963984540054
POWER = 0.8416
"""The normal quantile of 80 %."""
SILENT = "Nothing has reported yet."
NO_WINDOW = "Without a window no winner is named."
OUTSIDE = "An outcome is outside of the stated range: no winner is named."
NOT_YET = "No decision with known probabilities is final yet."
HARDLY = 50.0
"""Lines hardly differ if this many times the decisions so far are needed to be sure."""


@dataclass(frozen=True, slots=True)
class ActionRow:
    """One action, for people.

    Attributes:
        action: its name, or its number.
        plays: the number of decisions for it.
        reports: the number of these that have reported.
        exposed: the sum of the exposures of these decisions.
        mean: its expected outcome for all visitors, corrected for outcomes to come.
        low: the lower end of its 95 % interval, at this moment.
        high: the upper end of its 95 % interval, at this moment.
        leads: the probability that it is the best one for all visitors together.
        retired: whether it is no longer played.
    """

    action: str
    plays: int
    reports: int
    exposed: float
    mean: float
    low: float
    high: float
    leads: float
    retired: bool


@dataclass(frozen=True, slots=True)
class Still:
    """What it takes until a winner can be expected.

    Attributes:
        decisions: more decisions, at the present allocation.
        equal: more decisions, if every action gets an equal share from now on.
        time: the time of these decisions and of the window, by the clock; NaN without one.
        equal_time: the same for equal shares.
    """

    decisions: float
    equal: float
    time: float
    equal_time: float


@dataclass(frozen=True, slots=True)
class Verdict:
    """Which action wins. It prints as a sentence.

    Attributes:
        leader: the action that is best with the highest probability; None if nothing has reported.
        leads: that probability, at this moment.
        difference: its value less that of the runner-up, over the decisions whose outcomes are
            final, with an interval that is valid at every look; None without a window.
        at_stake: the upper end of what is lost per decision if everybody gets the leader from now
            on, with a probability of `level` at this moment. With features and a window it is at
            least what the final outcomes leave possible where effects are not linear.
        winner: the action that is better than every other one, at `level` however often somebody
            looks; None until that is sure.
        still: what it takes until a winner can be expected; None if there is one, if the actions
            hardly differ, or without a window.
        level: the confidence level.
        sentence: all of this in words.
    """

    leader: str | None = None
    leads: float = 0.0
    difference: Interval | None = None
    at_stake: float = math.inf
    winner: str | None = None
    still: Still | None = None
    level: float = 0.95
    sentence: str = ""

    def __str__(self) -> str:
        return self.sentence


def at_stake(rows: Sequence[ActionRow], leader: int, level: float) -> float:
    """The quantile of what the best of these actions has more than the leader."""
    mean = np.array([row.mean for row in rows])
    error = np.array([(row.high - row.low) / (2.0 * Z) for row in rows])
    if not np.isfinite(error).all():
        return math.inf
    normal = np.random.default_rng(0).standard_normal((DRAWS, len(rows)))  # so that answers repeat
    drawn = mean + error * normal
    return float(np.quantile(drawn.max(axis=1) - drawn[:, leader], level))


def verdict(
    rows: Sequence[ActionRow],
    contest: Contest | None,
    *,
    why: str = NO_WINDOW,
    level: float = 0.95,
    shares: Floats | None = None,
    pace: float = math.nan,
    window: float = 0.0,
    unit: str = "",
    per: str = "decision",
    time: str = "",
) -> Verdict:
    """The verdict.

    Args:
        rows: the table.
        contest: the confidence sequences, or None.
        why: the sentence without them.
        level: the confidence level of what is at stake.
        shares: (A,) the present allocation; by default that of all decisions so far.
        pace: decisions per unit of time.
        window: the time until an outcome is final.
        unit: the unit of outcomes, such as "euros".
        per: what a decision is, such as "mail".
        time: the unit of time, such as "days".
    """
    active = [a for a, row in enumerate(rows) if not row.retired]
    first, *others = sorted(active, key=lambda a: (-rows[a].leads, -rows[a].mean))
    name, leads = rows[first].action, rows[first].leads
    if not others:
        return Verdict(name, 1.0, None, 0.0, level=level, sentence=f"{name} is the only action.")
    if not any(row.reports for row in rows):
        return Verdict(level=level, sentence=SILENT)
    if leads == rows[others[-1]].leads:
        return Verdict(leads=leads, level=level, sentence="Too early to tell which action leads.")
    stake = at_stake([rows[a] for a in active], active.index(first), level)
    if contest is not None and contest.features:
        stake = max(stake, contest.behind(first, active, level))
    found = Verdict(name, leads, at_stake=stake, level=level)
    most = f"at most {_rounded(stake, ROUND_CEILING)} {unit}".strip() + f" a {per}"
    costs = most if stake else f"nothing ({_percent(level)})"
    lead = f"{name} leads ({_percent(leads)})."
    price = f"Giving everybody {name} now costs {costs}."
    if contest is None or not contest.decisions:
        return replace(found, sentence=f"{lead} {price} {NOT_YET if contest else why}")
    found = replace(found, difference=contest.difference(first, others[0]))
    best = contest.winner(active)
    if best is not None:
        winner, how = rows[best].action, "exact" if contest.exact else "asymptotic"
        sure = f"{winner} wins: that is sure at every look ({_percent(contest.level)}, {how})."
        said = f"{sure} {price}" if best == first else f"{sure} {lead} {price}"
        return replace(found, winner=winner, sentence=said)
    still = _still(rows, contest, first, active, shares, pace, window)
    end = "Too early to be sure, and the actions hardly differ."
    if still is not None:
        now = _needed(still.decisions, still.time, per, time)
        equal = _needed(still.equal, still.equal_time, per, time)
        end = f"Too early to be sure: {now} at this allocation, {equal} with equal shares."
    return replace(found, still=still, sentence=f"{lead} {price} {end}")


def _still(
    rows: Sequence[ActionRow],
    contest: Contest,
    first: int,
    active: list[int],
    shares: Floats | None,
    pace: float,
    window: float,
) -> Still | None:
    """What it takes until the first action can be expected to win; None if they hardly differ."""
    plays = np.array([row.plays for row in rows], dtype=float)
    gaps = np.array([-math.inf if row.retired else rows[first].mean - row.mean for row in rows])
    equal = np.where(np.isfinite(gaps), 1.0 / len(active), 0.0)
    now = contest.still(first, gaps, plays / plays.sum() if shares is None else shares)
    later = contest.still(first, gaps, equal, 1.0 / len(active))
    if min(now, later) > HARDLY * max(plays.sum(), 1000.0):
        return None
    each = 1.0 / pace if pace > 0.0 else math.nan
    return Still(now, later, now * each + window, later * each + window)


def proof(
    actions: int | None, prove_within: object, difference: object, rate: object, amount: object
) -> tuple[float, str]:
    """The floor, or the first phase of equal shares, that proves a difference; see `advise`."""
    within = checks.integer("prove_within", prove_within, 1, checks.MOST)
    if actions is None or actions < 2:
        raise ValueError("prove_within must be None unless there are two listed actions or more")
    size = checks.real("amount", amount, 0.0, above=True)
    gap = checks.real("difference", difference, 0.0, above=True) / size
    r = checks.real("rate", rate, 0.0, 1.0, above=True)

    def decisions(floor: float) -> float:
        loser = floor / actions
        return needed(gap, r * (1.0 - r), (1.0 - floor + loser, loser), 0.05 / actions, luck=POWER)

    phase = math.ceil(min(decisions(1.0), 1e15))
    if phase > within:
        raise ValueError(
            f"prove_within must be at least {phase:,} for a difference of {difference:g}: so many "
            f"decisions prove it with equal shares, got {within:,}"
        )
    floor = next(f / 100.0 for f in range(1, 101) if decisions(f / 100.0) <= within)
    each = (actions - 1) / actions * gap * size
    lost, phased = floor * within * each, (phase + 0.01 * (within - phase)) * each
    rest = "The answer is agent.verdict(window=..., range=...); four proofs of five come in time."
    if phased < lost:
        return 1.0, (
            f"Equal shares (floor=1) prove a difference of {difference:g} within about {phase:,} "
            f"decisions; then agent.change(floor=0.01). That costs about {phased:.3g}; a "
            f"floor of {floor:g} all the time costs {lost:.3g}. {rest}"
        )
    return floor, (
        f"A floor of {floor:g} proves a difference of {difference:g} within {within:,} decisions. "
        f"That costs about {lost:.3g}; equal shares for {phase:,} decisions first cost "
        f"{phased:.3g}. {rest}"
    )


def varying(row: ActionRow, level: float) -> Verdict:
    """The verdict where the actions vary, so that the row is about all of them."""
    told = (
        f"The actions vary, so none of them leads; the mean outcome of a decision is "
        f"{row.mean:.3g}, from {row.low:.3g} to {row.high:.3g}."
    )
    return Verdict(level=level, sentence=told if row.reports else SILENT)


def _needed(decisions: float, span: float, per: str, time: str) -> str:
    """How many more decisions, or how much more time, it takes; long times have larger units."""
    if not math.isfinite(decisions):
        return "no end in sight"
    if math.isnan(span):
        return f"about {_rounded(decisions):,} more {per}s"
    for unit, least, size, larger in SPANS:
        if time == unit and span >= least:
            span, time = span / size, larger
    return f"about {_rounded(span):,} {time or 'units of time'}"


def _percent(share: float) -> str:
    """A share in percent; close to 1 it is rounded down, and never said to be 1."""
    high = min(math.floor(1000.0 * share) / 10.0, 99.9)
    return f"{high if share > 0.99 else round(100.0 * share):g} %"


def _rounded(value: float, rounding: str = ROUND_HALF_EVEN) -> int | float:
    """The number, at least 0, rounded to two digits."""
    near = float(Context(2, rounding).create_decimal_from_float(max(0.0, value)))
    return int(near) if near.is_integer() else near
