"""The paper's parameters for every setting, with the corrections.

    agent = DelayedOPPO(problem, **tuning.oppo_full(problem, episodes=500, total_delay=5000))

One table, `SETTINGS`, holds them as functions of N = kappa K + D. With K and D known they are
used at that N (`parameters`, and the short forms below it); where nothing is known, `Doubling`
uses them at N = 2^e in phase e.

    setting                               kappa      eta                 gamma     beta
    full, known                           1          1 / (H sqrt N)      -         never skip
    full, unknown, paths at once          1          1 / (H sqrt N)      -         never skip
    full, unknown, paths delayed          1          1 / (H sqrt N)      -         sqrt(D / (H S))
    bandit, known                         A^{3/2}    1 / (H N^{2/3})     N^{-1/3}  sqrt D
    bandit, unknown, paths at once        A^{3/2}    1 / (H N^{2/3})     N^{-1/3}  sqrt D
    bandit, unknown, paths delayed        A^{3/2}    1 / (H N^{2/3})     N^{-1/3}  sqrt(D / (H S A))
    stochastic                            1          1 / (H sqrt N)      -         sqrt(D / (H S))
    arms (S = H = 1, bandit)              A          sqrt(ln A / N)      0         never skip
    o-reps                                1          sqrt(2 ln(SA) / N)  -         never skip

Lancewicki, Rosenberg & Mansour (AAAI 2022), Corollary on skipping and the doubling algorithm.
Departures: beta = sqrt D in the first two bandit rows (with the Corollary's sqrt(D / (H S)) the
claimed bound fails for D < (S / H)^3, and the doubling pseudo-code has sqrt D as well). Only the
"bandit, known" row of the doubling table is printed; the others are what its proof needs. O-REPS
has no printed step size; with K and D known its bound asks for N = K + 3 D.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

from belated import checks
from belated.problem import Problem

OfProblem = Callable[[Problem, float], float]


def _never(problem: Problem, N: float) -> float:
    return math.inf


@dataclass(frozen=True, slots=True)
class Setting:
    """A row of the table: functions of (problem, N), beta of (problem, D)."""

    weight: Callable[[Problem], float]
    learning_rate: OfProblem
    exploration: OfProblem | None = None
    max_delay: OfProblem = _never


def _root(problem: Problem, N: float) -> float:
    return 1.0 / (problem.horizon * math.sqrt(N))


def _two_thirds(problem: Problem, N: float) -> float:
    return 1.0 / (problem.horizon * math.pow(N, 2 / 3))


def _cube_root(problem: Problem, N: float) -> float:
    return math.pow(N, -1 / 3)


def _zero(problem: Problem, N: float) -> float:
    return 0.0


def _one(problem: Problem) -> float:
    return 1.0


def _arms(problem: Problem) -> float:
    return float(problem.actions)


def _arms_and_half(problem: Problem) -> float:
    return math.pow(problem.actions, 1.5)


def _per_state(problem: Problem, D: float) -> float:
    return math.sqrt(D / (problem.horizon * problem.states))


def _per_row(problem: Problem, D: float) -> float:
    return math.sqrt(D / (problem.horizon * problem.states * problem.actions))


def _all(problem: Problem, D: float) -> float:
    return math.sqrt(D)


def _log_arms(problem: Problem, N: float) -> float:
    return math.sqrt(math.log(problem.actions) / N)


def _log_rows(problem: Problem, N: float) -> float:
    return math.sqrt(2.0 * math.log(problem.states * problem.actions) / N)


SETTINGS: dict[str, Setting] = {
    "full, known": Setting(_one, _root),
    "full, unknown, paths at once": Setting(_one, _root),
    "full, unknown, paths delayed": Setting(_one, _root, None, _per_state),
    "bandit, known": Setting(_arms_and_half, _two_thirds, _cube_root, _all),
    "bandit, unknown, paths at once": Setting(_arms_and_half, _two_thirds, _cube_root, _all),
    "bandit, unknown, paths delayed": Setting(_arms_and_half, _two_thirds, _cube_root, _per_row),
    "stochastic": Setting(_one, _root, None, _per_state),
    "arms": Setting(_arms, _log_arms, _zero),
    "o-reps": Setting(_one, _log_rows),
}


@dataclass(frozen=True, slots=True)
class Parameters:
    """Step size, exploration (None under full information) and the skipping threshold."""

    learning_rate: float
    exploration: float | None
    max_delay: float

    def keywords(self) -> dict[str, float]:
        """The keywords of an agent; the threshold is for `Skipping`."""
        if self.exploration is None:
            return {"learning_rate": self.learning_rate}
        return {"learning_rate": self.learning_rate, "exploration": self.exploration}


def parameters(
    setting: str, problem: Problem, episodes: int, total_delay: float = 0.0
) -> Parameters:
    """The parameters of a setting of the table for known K and D."""
    row = SETTINGS[checks.choice("setting", setting, SETTINGS)]
    checks.instance("problem", problem, Problem)
    K = checks.integer("episodes", episodes, 1)
    D = checks.real("total_delay", total_delay, 0.0)
    N = row.weight(problem) * K + (3.0 * D if setting == "o-reps" else D)
    return Parameters(
        learning_rate=row.learning_rate(problem, N),
        exploration=None if row.exploration is None else row.exploration(problem, N),
        max_delay=row.max_delay(problem, D),
    )


def oppo_full(
    problem: Problem, episodes: int, total_delay: float = 0.0, *, log_actions: bool = False
) -> dict[str, float]:
    """Delayed OPPO, full information (or stochastic costs): eta = 1 / (H sqrt(K + D)).

    log_actions: the minimiser of the bound H ln(A) / eta + eta H^3 (K + D), which has a factor
    sqrt(ln A) more.
    """
    tuned = parameters("full, known", problem, episodes, total_delay).keywords()
    if log_actions:
        tuned["learning_rate"] *= math.sqrt(math.log(problem.actions))
    return tuned


def oppo_bandit(problem: Problem, episodes: int, total_delay: float = 0.0) -> dict[str, float]:
    """Delayed OPPO, bandit feedback: eta = N^{-2/3} / H, gamma = N^{-1/3}, N = A^{3/2} K + D."""
    return parameters("bandit, known", problem, episodes, total_delay).keywords()


def exp3(problem: Problem, episodes: int, total_delay: float = 0.0) -> dict[str, float]:
    """Delayed EXP3 (bandit feedback with S = H = 1): eta = sqrt(ln A / (A K + D)), gamma = 0."""
    return parameters("arms", problem, episodes, total_delay).keywords()


def oreps(problem: Problem, episodes: int, total_delay: float = 0.0) -> dict[str, float]:
    """Delayed O-REPS, full information: eta = sqrt(2 ln(S A) / (K + 3 D))."""
    return parameters("o-reps", problem, episodes, total_delay).keywords()


def exploration_threshold(problem: Problem, max_delay: float, delta: float = 0.1) -> float:
    """Explicit exploration: more than 2 d_max ln(H S A / delta) visits must have been observed."""
    checks.instance("problem", problem, Problem)
    max_delay = checks.real("max_delay", max_delay, 0.0)
    delta = checks.real("delta", delta, 0.0, 1.0, above=True)
    rows = problem.horizon * problem.states * problem.actions
    return 2.0 * max_delay * math.log(rows / delta)
