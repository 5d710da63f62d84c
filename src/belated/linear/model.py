"""The policy of one decision: a pure function of a model, the features, a seed and a number.

An action whose prediction is m_a, with standard error s_a, scores

    m_a + s_a (1/2 + c_a z_a),    c_a^2 = min(1, 3 / e_a) / n,    e_a = n rate / q_a

with independent standard normal z_a; n is the mean number of features that are not 0. Its
probability is that of the best score, by an integral. q_a = (s_a / sigma)^2 makes n / q_a about the
number of decisions for the action, and e_a the number of reports expected of them. While that is
below 3 the draws are wide, so that an action with an unlucky start comes back; later they become
narrow, and half a standard error of optimism remains. Of many features most of s_a is about what
matters little, hence 1 / n. A floor and a holdout are then added, so that the stated probabilities
are those with which the action is drawn.

The number that draws it is a hash of (seed, number of the decision), with the mixing function of
SplitMix64 (Steele, Lea & Flood 2014, "Fast splittable pseudorandom number generators"). So the
same calls give the same decisions, whatever else was drawn in between.
"""

import math
from collections.abc import Sequence
from typing import Self

import numpy as np

from belated.core import checks, saving
from belated.core.arrays import Floats, Ints
from belated.core.compiled import njit
from belated.core.contract import Decision
from belated.core.tree import Configured
from belated.linear.choice import Choice
from belated.linear.features import unscaled
from belated.linear.fit import Known, form

OPTIMISM = 0.5
"""What is added to a prediction, in standard errors."""
FEW = 3.0
"""The expected number of reports of an action above which its draws become narrower."""
FAR = 4.5
"""The integral ends at this many widths."""
POINTS = 25
"""The number of points of the integral for each action."""
PLACES = 2.0 * np.arange(POINTS) / (POINTS - 1) - 1.0
"""Where these points are, from -1 to 1."""
LEAST_WIDTH = 1e-12
"""The least width, relative to the scores: rounding must not remove it."""
FINE = 128
"""The number of entries of a table of the normal distribution, for each unit."""
NORMAL = np.array(
    [0.5 * math.erfc((FAR - k / FINE) / 2**0.5) for k in range(int(2 * FAR * FINE) + 1)]
)
NORMAL[[0, -1]] = 0.0, 1.0

Scales = tuple[float, float, float, float]
"""The constant of all models, sigma, rate and nonzero of `Known`."""

_STEP = np.uint64(0x9E3779B97F4A7C15)
_FIRST = np.uint64(0xBF58476D1CE4E5B9)
_SECOND = np.uint64(0x94D049BB133111EB)


class Model(Configured):
    """A learner at one moment: everything that a decision depends on, and nothing that grows.

    Args:
        problem: the choice.
        floor: see `LinearSampler`, as for the others.

    Attributes:
        known: what has been learned; None before the first report.
        scaling: of named numbers.
        retired: the actions that are not played any more, in order.

    Example:
        >>> agent = bl.recommend(bl.Choice(actions=2))
        >>> choose(agent.model(), None, seed=0, number=7).probability
        0.5
    """

    known: Known | None
    scaling: Floats
    retired: list[int]

    def __init__(
        self,
        problem: Choice,
        *,
        floor: float = 0.01,
        holdout: float = 0.0,
        reference: Sequence[float] | None = None,
    ) -> None:
        checks.instance("problem", problem, Choice)
        self.problem = problem
        self.floor = checks.real("floor", floor, 0.0, 1.0)
        self.holdout = checks.real("holdout", holdout, 0.0, 1.0)
        self.reference = None if reference is None else _reference(reference, problem)
        self.known, self.scaling, self.retired = None, unscaled(problem.features), []

    @property
    def _models(self) -> int:
        return self.problem.actions or 1

    @property
    def axes(self) -> dict[str, int]:
        """The sizes of the axes of what is learned."""
        width = self.problem.width
        return {"models": self._models, "width": width, "p": width + (not self.problem.shared)}

    def available(self, rows: int, among: object) -> Ints:
        """The models of the available actions."""
        if among is not None or self.retired:
            return np.array(self.problem.allowed(among, self.retired))
        return np.zeros(rows, dtype=np.int64) if self.problem.shared else np.arange(self._models)

    def check_observation(self, x: object, among: object = None) -> object:
        """That of the problem, without the actions that are not played any more."""
        return self.problem.check_observation(x, among, self.retired)

    def shares(self, rows: Floats, models: Ints) -> Floats:
        """The probability of every available action, (n,); rows: (1, width) or (n, width)."""
        if self.known is None:
            return self._mixed(np.full(len(models), 1.0 / len(models)), models)
        theta, covariance = self.known[:2]
        found = best(rows, models, theta, covariance, self.known[2:6], self.floor)
        return self._mixed(found, models)

    def _mixed(self, shares: Floats, models: Ints) -> Floats:
        """The shares (n,) of the available actions, with the holdout."""
        if not self.holdout:
            return shares
        given = np.ones(len(models)) if self.reference is None else np.array(self.reference)[models]
        given = given if given.any() else np.ones(len(models))
        held: Floats = (1.0 - self.holdout) * shares + self.holdout * given / given.sum()
        return held

    def foreseen(self, models: Ints, probabilities: Floats) -> tuple[float, ...]:
        """What is known of the probabilities of all actions, (A,), before the features are seen.

        Without features all of it; otherwise the smallest ones that floor and holdout allow the
        models that are available. If one of these is 0, an action may be played for some visitors
        only, and nothing is known; nor is it where the actions vary.
        """
        if self.problem.width:
            least = self._mixed(np.full(len(models), self.floor / len(models)), models)
            if self.problem.shared or not least.all():
                return ()
            probabilities = self.every(models, least)
        return tuple(probabilities.tolist())

    def every(self, models: Ints, shares: Floats) -> Floats:
        """Probabilities of all actions, 0 for those that are not available."""
        if self.problem.shared or len(models) == self._models:
            return shares
        found: Floats = np.zeros(self._models)
        found[models] = shares
        return found

    def drawn(self, rows: Floats, models: Ints, number: int, draw: float) -> Decision:
        """The decision that a number in (0, 1) draws."""
        problem, shares = self.problem, self.shares(rows, models)
        place = place_of(shares, draw)
        action = place if problem.shared else models.item(place)
        name = None if problem.names is None else problem.names[action]
        chance, every = shares.item(place), self.every(models, shares)
        return Decision(number, action, chance, every, name)

    def probabilities(self, step: int, observation: object, among: object) -> Floats:
        """The probability of every action for these features: the policy of an episode."""
        checks.integer("step", step, 0, 0)
        rows, _ = self.problem.rows(observation, self.scaling)
        models = self.available(len(rows), among)
        return self.every(models, self.shares(rows, models))

    def to_bytes(self) -> bytes:
        """The model as a file."""
        return saving.to_bytes(self)

    @classmethod
    def from_bytes(cls, content: bytes) -> Self:
        """The model of a file; `SavedFileError` if it is damaged or something else."""
        made = saving.from_bytes(content, "model")
        if type(made) is not cls:
            raise saving.SavedFileError("model must be that of a learner, got another object")
        return made

    def check_learned(self) -> None:
        """Check that an action is left to be played, and that no spread is negative."""
        gone = {checks.integer("retired", a, 0, self._models - 1) for a in self.retired}
        self.retired = sorted(gone)
        if len(gone) == self._models:
            raise ValueError("retired must leave one action that is played")
        if (self.scaling[[0, 1, 3]] < 0.0).any():
            raise ValueError("scaling must have counts and squares of at least 0")


def _reference(given: object, problem: Choice) -> list[float]:
    """The policy of the holdout, checked."""
    if problem.actions is None:
        raise ValueError("reference must be None where the actions vary: the holdout is uniform")
    policy = checks.shaped("reference", given, (problem.actions,))
    return [*checks.distributions("reference", policy).tolist()]


def choose(
    model: Model, x: object, seed: int, number: int, among: Sequence[int | str] | None = None
) -> Decision:
    """The decision with this number, under the seed of the learner.

    Args:
        model: what is known.
        x: the features, as for `LinearSampler.decide`.
        seed: the seed of the learner.
        number: the number of the decision.
        among: the allowed actions, by number or name.
    """
    rows, _ = model.problem.rows(x, model.scaling)
    return model.drawn(rows, model.available(len(rows), among), number, uniform(seed, number))


@njit(cache=True)
def mixed(bits: np.uint64) -> np.uint64:
    """The finaliser of SplitMix64."""
    bits = (bits ^ (bits >> np.uint64(30))) * _FIRST
    bits = (bits ^ (bits >> np.uint64(27))) * _SECOND
    return bits ^ (bits >> np.uint64(31))


@njit(cache=True)
def uniform(seed: int, number: int) -> float:
    """The number in (0, 1) that draws the action of a decision."""
    key = mixed(_STEP ^ np.uint64(seed))
    key = mixed((key + _STEP) ^ np.uint64(number))
    return (float(mixed(key + _STEP) >> np.uint64(12)) + 0.5) * 2.0**-52


@njit(cache=True)
def place_of(shares: Floats, draw: float) -> int:
    """The place at which the cumulated shares exceed a number in (0, 1)."""
    edges = np.cumsum(shares)
    place = np.searchsorted(edges, draw * edges[-1], side="right")
    return int(min(place, np.flatnonzero(shares)[-1]))  # the product may be rounded up


@njit(cache=True)
def best(
    rows: Floats, models: Ints, theta: Floats, covariance: Floats, scales: Scales, floor: float
) -> Floats:
    """The probability of each available action, (n,), with the floor."""
    means, widths = scores(rows, models, theta, covariance, scales)
    return (1.0 - floor) * best_of(means, widths) + floor / len(models)


@njit(cache=True, fastmath={"reassoc", "contract"})
def scores(
    rows: Floats, models: Ints, theta: Floats, covariance: Floats, scales: Scales
) -> tuple[Floats, Floats]:
    """The mean and the width of the score of every available action, (n,) each; see `Known`."""
    constant, sigma, rate, nonzero = scales
    z, means, widths = np.ones(theta.shape[1]), np.empty(len(models)), np.empty(len(models))
    for a in range(len(models)):
        i = models[a]
        if a == 0 or len(rows) > 1:
            z[: rows.shape[1]] = rows[a]
        mean = constant
        for u in range(len(z)):
            mean += theta[i, u] * z[u]
        q = max(form(covariance[i], z), 0.0)
        error = sigma * math.sqrt(q)
        means[a] = mean + OPTIMISM * error
        wide = min(1.0, FEW * q / (nonzero * rate)) if rate > 0.0 else 1.0
        widths[a] = error * math.sqrt(wide / nonzero)
    return means, widths


@njit(cache=True)
def normal(z: float) -> float:
    """The standard normal distribution function, interpolated to 2e-6; 0 and 1 beyond `FAR`."""
    place = max(0.0, min((z + FAR) * FINE, 2.0 * FAR * FINE))
    below = min(int(place), len(NORMAL) - 2)
    return float(NORMAL[below] + (place - below) * (NORMAL[below + 1] - NORMAL[below]))


@njit(cache=True)
def best_of(means: Floats, widths: Floats) -> Floats:
    """The probability that each of n independent normal scores is the best, (n,).

    The sum over cells of P(the score of a lies in the cell) times the mean probability that all
    others lie below it; every action divides the line by its own points.
    """
    widths = np.maximum(widths, LEAST_WIDTH * np.max(np.abs(means)) + 1e-300)
    low = np.max(means - FAR * widths)
    rivals = np.flatnonzero(means + FAR * widths >= low)
    m, w, count = means[rivals], widths[rivals], len(rivals)
    points = np.sort((m.reshape(-1, 1) + w.reshape(-1, 1) * FAR * PLACES).ravel())
    points = points[np.searchsorted(points, low, side="right") :]
    below, now, found = np.ones(count), np.ones(count), np.zeros(count)
    for c in range(count):
        below[c] = normal((low - m[c]) / w[c])
    others = np.ones(count + 1)  # products of the shares of the rivals from each on
    for point in points:
        for c in range(count - 1, -1, -1):
            now[c] = normal((point - m[c]) / w[c])
            others[c] = others[c + 1] * 0.5 * (now[c] + below[c])
        before = 1.0
        for c in range(count):
            found[c] += (now[c] - below[c]) * before * others[c + 1]
            before *= 0.5 * (now[c] + below[c])
            below[c] = now[c]
    shares: Floats = np.zeros(len(means))
    shares[rivals] = found / np.sum(found)
    return shares
