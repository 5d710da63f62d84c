"""Worlds of decisions: visitors with features, and the outcome of every action.

The expected outcome of every action is known, so that the value of a policy is exact. Everything is
drawn from a seed before the first decision: two learners with the same seed get the same visitors.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from belated.core import checks
from belated.core.arrays import Floats, Ints, frozen
from belated.core.delays import as_delays
from belated.linear.choice import Choice

Change = Literal["none", "switch", "drift"]
MAILER = ((0.10, 0.04, 0.06, 0.05), (0.04, 0.05, 0.06, 0.10))
"""Purchase rates of four subject lines among two kinds of customers."""


@dataclass(frozen=True, slots=True, eq=False)
class Visits:
    """The visitors and potential outcomes of K decisions.

    Attributes:
        features: (K, d), or (K, A, d) if they describe the actions; None if there are none.
        means: (K, A) expected outcome of every action.
        outcomes: (K, A) outcome of every action.
        delays: (K, A) delay of every outcome, if the world determines it; `NEVER` if it is lost.
    """

    features: Floats | None
    means: Floats
    outcomes: Floats
    delays: Ints | None = None

    def __post_init__(self) -> None:
        means = checks.floats("means", self.means, "(K, A)", (2,))
        whole = means.shape
        checks.fix(self, "means", frozen(means))
        checks.fix(self, "outcomes", frozen(checks.shaped("outcomes", self.outcomes, whole)))
        if self.delays is not None:
            checks.shaped("delays", self.delays, whole)
            delays = as_delays("delays", np.ravel(self.delays))
            checks.fix(self, "delays", frozen(delays.reshape(whole)))
        if self.features is not None:
            x = checks.floats("features", self.features, "(K, d) or (K, A, d)", (2, 3))
            d = x.shape[-1]
            x = checks.shaped("features", x, (whole[0], d), (*whole, d))
            checks.fix(self, "features", frozen(x))

    def at(self, episode: int) -> Floats | None:
        """The features of a visitor: (d,), (A, d) or None."""
        return None if self.features is None else self.features[episode]


Draw = Callable[[int, np.random.Generator], Visits]


class DecisionWorld:
    """Visitors, their features and the expected outcome of every action; hidden from the learner.

    Args:
        problem: the problem of the learner.
        draw: `draw(episodes, rng)` draws the `Visits` of a run.
        silence: the outcome that does not report; None if every outcome reports.
    """

    def __init__(self, problem: Choice, draw: Draw, *, silence: float | None = 0.0) -> None:
        checks.instance("problem", problem, Choice)
        if not callable(draw):
            raise ValueError(f"draw must be a function, got {checks.show(draw)}")
        self.problem = problem
        self.silence = None if silence is None else checks.real("silence", silence, -np.inf)
        self._draw = draw

    def visits(self, episodes: int, rng: np.random.Generator) -> Visits:
        """The visits of a run, checked."""
        made = self._draw(episodes, rng)
        checks.instance("draw(episodes, rng)", made, Visits)
        K, A = made.means.shape
        found = K, A, 0 if made.features is None else made.features.shape[-1]
        wanted = episodes, self.problem.actions or A, self.problem.width
        if found != wanted:
            terms = "%d decisions, %d actions and %d features"
            raise ValueError(f"draw must give {terms % wanted}, got {terms % found}")
        return made

    def __repr__(self) -> str:
        return f"DecisionWorld({self.problem!r}, silence={self.silence!r})"


def over_time(models: Floats, change: str, episodes: int) -> Floats:
    """The model of every decision, (K, ...), from two models (2, ...): see `conversions`."""
    place = np.linspace(0.0, change != "none", episodes)
    weight = np.floor(place + 0.5) if change == "switch" else place
    weight = weight.reshape(-1, *[1] * (models.ndim - 1))
    return frozen((1.0 - weight) * models[0] + weight * models[1])


def conversions(
    actions: int = 4,
    features: int = 6,
    *,
    rate: float = 0.05,
    contrast: float = 1.0,
    change: Change = "none",
    amounts: float = 0.0,
    seed: int = 0,
) -> DecisionWorld:
    """Visitors who sometimes buy; only a purchase reports.

    >>> import belated as bl
    >>> bl.environments.conversions(actions=3, features=2).problem
    Choice(actions=3, features=2)

    Args:
        actions: A.
        features: d; 0 for none.
        rate: the typical probability of a purchase.
        contrast: the effect of features and actions on its log-odds.
        change: "none"; "switch": the visitors change in the middle of a run; "drift": they change
            gradually from the first decision to the last.
        amounts: the spread of the logarithm of the amounts, around 1; 0: every purchase is 1.
        seed: determines the visitors' preferences.
    """
    A, d = checks.integer("actions", actions, 1), checks.integer("features", features, 0)
    base = checks.real("rate", rate, 0.0, 1.0, above=True)
    scale = checks.real("contrast", contrast, 0.0)
    spread = checks.real("amounts", amounts, 0.0, 5.0)
    checks.choice("change", change, get_args(Change))
    rng = np.random.default_rng(checks.integer("seed", seed, 0))
    slopes = rng.normal(0.0, scale / np.sqrt(max(d, 1)), (2, A, d))
    offsets = np.log(base / (1.0 - base)) + rng.normal(0.0, 0.5 * scale, (2, A))

    def draw(episodes: int, rng: np.random.Generator) -> Visits:
        x = rng.normal(size=(episodes, d))
        log_odds = np.einsum("kd,kad->ka", x, over_time(slopes, change, episodes))
        rates = 1.0 / (1.0 + np.exp(-log_odds - over_time(offsets, change, episodes)))
        bought = rng.random(rates.shape) < rates
        worth = np.exp(rng.normal(0.0, spread, rates.shape))
        means = rates * np.exp(0.5 * spread**2)
        return Visits(x if d else None, means, np.where(bought, worth, 0.0))

    return DecisionWorld(Choice(actions=A, features=d or None), draw)


def mailer() -> DecisionWorld:
    """Four subject lines for two kinds of customers, who buy in 4 to 10 % of the cases.

    >>> import belated as bl
    >>> bl.environments.mailer().problem.names
    ('plain', 'question', 'discount', 'story')
    """

    def draw(episodes: int, rng: np.random.Generator) -> Visits:
        kind = rng.integers(0, 2, episodes)
        means = np.array(MAILER)[kind]
        bought = rng.random(means.shape) < means
        return Visits(kind[:, None].astype(float), means, bought.astype(float))

    lines = ["plain", "question", "discount", "story"]
    return DecisionWorld(Choice(actions=lines, features=1), draw)
