"""The paper's parameters for every setting, with the corrections.

A `Setting` says what a learner sees and knows. With K and D known, `Setting.at` gives the
parameters for N = kappa K + D; where nothing is known, `Doubling` uses `Setting.phase` at N = 2^e
in phase e.

    setting                               kappa      eta                 gamma     beta
    full, known                           1          1 / (H sqrt N)      -         never skip
    full, unknown, paths at once          1          1 / (H sqrt N)      -         never skip
    full, unknown, paths late             1          1 / (H sqrt N)      -         sqrt(D / (H S))
    the same, in order                    1          1 / (H sqrt N)      -         never skip
    bandit, known                         A^{3/2}    1 / (H N^{2/3})     N^{-1/3}  sqrt D
    bandit, unknown, paths at once        A^{3/2}    1 / (H N^{2/3})     N^{-1/3}  sqrt D
    bandit, unknown, paths late           A^{3/2}    1 / (H N^{2/3})     N^{-1/3}  sqrt(D / (H S A))
    stochastic, OPPO or UCBVI             1          1 / (H sqrt N)      -         sqrt(D / (H S))
    arms (one step from one state)        A          sqrt(ln A / N)      0         never skip
    O-REPS                                1          sqrt(2 ln(SA) / N)  -         never skip
    DAPO, known                           1+SA/H^2   1 / (H^2 sqrt N)    2 eta H   sqrt(D) / H
    DAPO, unknown                         1+SA/H^2   1 / (H sqrt N)      2 eta H   sqrt(D/A) / (H S)
    FTRL, known                           SA         sqrt(ln(H N) / N)   -         never skip
    UOB-REPS, unknown                     B / H      sqrt(l / (B N))     eta       never skip

with B = sqrt(X A), X = 2 + (H - 1) S the states of all steps, and l = ln(H X A / delta) at
delta = 0.1.

The two thresholds sqrt(D / (H S)) are for explicit exploration (`explores`). Without it the term of
the largest delay has a factor A more, and the threshold is sqrt(D / (H S A)).

The paper's rates are simplified by its standing assumption S >= max(A, H^2) (section "Setting").
`Setting.bound` holds for all sizes: it keeps the terms H^2 A K^{2/3} (bandit feedback) and
H^2 sqrt K (full information, unknown transitions), which the assumption makes smaller than others.

Some bounds are not proved (`Setting.proved`).

Lancewicki, Rosenberg & Mansour (AAAI 2022), Corollary on skipping and the doubling algorithm.
Departures: the threshold is beta = sqrt D in the first two bandit rows, as in the doubling
pseudo-code; the Corollary has sqrt(D / (H S)), which has the same rate. Only the "bandit, known"
row of the doubling table is printed; the others are what its proof needs. O-REPS has no printed
step size; with K and D known its bound asks for N = K + 3 D. DAPO: Lancewicki, Rosenberg & Sotnikov
(ICML 2023), Theorems B.1 and C.1 and Remark C.2; its eta is (H^2 S A K + H^4 (K + D))^(-1/2), times
H if transitions are unknown.
FTRL: van der Hoeven et al. (COLT 2023), Theorem 7, for practice; with a largest delay, as printed.
UOB-REPS: Jin, Jin, Luo, Sra & Yu (ICML 2020), Theorem 3: without delays its eta is
sqrt(H l / (X A K)). The weight of D is ours: it balances the bound of the delayed form that
Lancewicki, Rosenberg & Sotnikov quote.
"""

import math
from dataclasses import dataclass

from belated.core import checks
from belated.tabular.problem import Problem


@dataclass(frozen=True, slots=True)
class Parameters:
    """What tuning gives.

    Attributes:
        learning_rate: the step size eta.
        exploration: gamma, None where costs are not importance-weighted.
        threshold: beta, the delay beyond which feedback is skipped; infinity skips nothing.
        barrier: eta / gamma of FTRL as printed; None: the agent's own.
    """

    learning_rate: float
    exploration: float | None
    threshold: float
    barrier: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """What a learner sees and knows: a row of the table above.

    Attributes:
        information: "full" or "bandit".
        dynamics: "known" or "unknown".
        paths: whether trajectories come "late", with the costs, or "at once".
        stochastic: the costs come from fixed laws and are averaged.
        arms: importance-weighted costs of one step from one state.
        oreps: mirror descent on occupancy measures.
        dapo: delay-adapted policy optimization, under bandit feedback.
        ftrl: follow the regularised leader on occupancy measures, under bandit feedback.
        uob: mirror descent on occupancy measures with upper occupancy bounds, the same.
        ucbvi: optimistic planning; costs are stochastic.
        explores: states with few observed visits are played uniformly (`FewVisits`).
        in_order: no feedback overtakes earlier feedback. Under full information late paths are then
            as good as paths at once: when the costs of an episode come, so have all earlier paths.
            Under bandit feedback this does not help, since an episode is weighted with the counts
            of its start.
    """

    information: str = "full"
    dynamics: str = "unknown"
    paths: str = "late"
    stochastic: bool = False
    arms: bool = False
    oreps: bool = False
    dapo: bool = False
    ftrl: bool = False
    uob: bool = False
    ucbvi: bool = False
    explores: bool = False
    in_order: bool = False

    def __post_init__(self) -> None:
        checks.choice("information", self.information, ("full", "bandit"))
        checks.choice("dynamics", self.dynamics, ("known", "unknown"))
        checks.choice("paths", self.paths, PATHS)
        agents = ("arms", "oreps", "dapo", "ftrl", "uob", "ucbvi")
        for name in ("stochastic", *agents, "explores", "in_order"):
            checks.flag(name, getattr(self, name))
        if self.ucbvi and not self.stochastic:
            raise ValueError("ucbvi must go with stochastic=True, got stochastic=False")

    def weight(self, problem: Problem) -> float:
        """Kappa: how much an episode counts against a missing one."""
        if self.dapo:
            return 1.0 + problem.states * problem.actions / problem.horizon**2
        if self.ftrl:
            return float(problem.states * problem.actions)
        if self.uob:
            return math.sqrt(layered(problem) * problem.actions) / problem.horizon
        if self._weighted:
            return float(problem.actions) if self.arms else math.pow(problem.actions, 1.5)
        return 1.0

    def at(
        self,
        problem: Problem,
        episodes: int,
        total_delay: float = 0.0,
        *,
        max_delay: float | None = None,
    ) -> Parameters:
        """The parameters for known K and D.

        max_delay: for FTRL as printed, whose parameters follow from the largest delay too.
        """
        checks.instance("problem", problem, Problem)
        K = checks.integer("episodes", episodes, 1, checks.MOST)
        D = checks.real("total_delay", total_delay, 0.0)
        weight = self.weight(problem)
        N = weight * K + (3.0 * D if self.oreps else D)
        if max_delay is not None:
            return self._printed(problem, N, weight * K, max_delay)
        return self._parameters(problem, N, D)

    def phase(self, problem: Problem, N: float, *, max_delay: float | None = None) -> Parameters:
        """The parameters of a phase in which kappa K + D is at most N."""
        if max_delay is not None:
            return self._printed(problem, N, N, max_delay)
        return self._parameters(problem, N, N)

    @property
    def exact(self) -> bool:
        """Whether `bound` has its constants; elsewhere it is the leading terms, with factors 1."""
        return self.arms or (self.information == "full" and self.dynamics == "known")

    @property
    def proved(self) -> bool:
        """Whether the bound has a proof, the paper's or ours, for these parameters and all delays.

        These have none:
        - O-REPS with unknown transitions: a lemma takes the last measure to be in the new
          confidence set, but the sets are not nested. For late paths no bound is stated.
        - OPPO with stochastic costs: the paper says in a sentence that the bound of full
          information holds.
        - DAPO: the lemma on Hedge that its proof uses (E.6) is false where feedback of several
          episodes arrives together.
        - FTRL: the rates here are for practice; the paper's bound is for other constants.
        - UOB-REPS: its form for delays is a reconstruction, and the bound is quoted.
        """
        return not (
            (self.oreps and self.dynamics == "unknown")
            or (self.stochastic and not self.ucbvi)
            or self.dapo
            or self.ftrl
            or self.uob
        )

    def bound(self, problem: Problem, episodes: float, total_delay: float = 0.0) -> float:
        """The regret bound for K episodes and a total delay D, at the best threshold.

        Where only a rate is known, its constants, logarithms and terms of lower order are left
        out. It does not need the paper's assumption S >= max(A, H^2). Infinity: no bound is known.
        See `exact` and `proved`.
        """
        H, S, A = problem.shape
        K, D = episodes, total_delay
        if self.dapo and self.dynamics == "known":
            return H * H * math.sqrt(S * A * K) + math.pow(H, 3) * math.sqrt(K + D)
        if self.dapo:
            return math.pow(H, 3) * S * math.sqrt(A * (K + D))
        if self.ftrl:
            return H * math.sqrt(S * A * K) + H * math.sqrt(D)
        if self.uob:
            return H * H * S * math.sqrt(A * K) + math.pow(H * S * A, 0.25) * H * math.sqrt(D)
        if self.arms:
            return 2.0 * math.sqrt(2.0 * math.log(A) * (A * K + D))
        if self.stochastic:
            late = self._rare_rows(problem) * self._threshold(problem, D)
            return H * H * (S * math.sqrt(A * K) + late + (0.0 if self.ucbvi else math.sqrt(D)))
        if self.information == "bandit":
            penalty = H * H * (A * math.pow(K, 2 / 3) + math.pow(D, 2 / 3))
            return H * S * math.sqrt(A) * math.pow(K, 2 / 3) + penalty
        if self.oreps and self.dynamics == "known":
            return 2.0 * H * math.sqrt(2.0 * math.log(S * A) * (K + 3.0 * D))
        if self.oreps and self.paths == "late":
            return math.inf
        if self.oreps:
            return math.pow(H, 1.5) * S * math.sqrt(A * K) + H * math.sqrt(D)
        if self.dynamics == "known":
            return H * (H + 1) * math.sqrt(2.0 * math.log(A) * (K + D))
        if not self._late:
            return math.pow(H, 1.5) * S * math.sqrt(A * K) + H * H * math.sqrt(K + D)
        late = self._rare_rows(problem) * self._threshold(problem, D)
        return H * H * (S * math.sqrt(A * K) + math.sqrt(D) + late)

    def useful_from(self, problem: Problem, mean_delay: float = 0.0) -> int:
        """The least K from which on the bound, with D = mean_delay K, is below H K."""

        def useful(K: int) -> bool:
            return self.bound(problem, K, mean_delay * K) < problem.horizon * K

        high = 1
        while not useful(high):
            if high > 2**62:
                return high
            high *= 2
        low = high // 2  # not useful, or 0
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if useful(middle) else (middle, high)
        return high

    @property
    def _weighted(self) -> bool:
        return self.information == "bandit" and not self.stochastic

    @property
    def _late(self) -> bool:
        """Whether the counts lag behind where a set or an estimate is made from them."""
        ordered = self.in_order and self.information == "full"
        return self.dynamics == "unknown" and self.paths == "late" and not ordered

    def _rare_rows(self, problem: Problem) -> int:
        """What has to be visited while its first visits are not observed: states, or rows."""
        return problem.states if self.explores else problem.states * problem.actions

    def _parameters(self, problem: Problem, N: float, D: float) -> Parameters:
        rate = self._rate(problem, N)
        exploration = self._exploration(N)
        if self.dapo:
            exploration = 2.0 * rate * problem.horizon
        elif self.uob:
            exploration = rate
        return Parameters(rate, exploration, self._threshold(problem, D))

    def _printed(self, problem: Problem, N: float, rows: float, max_delay: float) -> Parameters:
        """FTRL with the paper's constants for N = S A K + D; rows is S A K."""
        if not self.ftrl:
            raise ValueError(
                "max_delay must be left out: only the parameters of DelayedFTRL follow from the "
                f"largest delay, got {checks.show(max_delay)}"
            )
        stable = problem.horizon * (1.0 + checks.real("max_delay", max_delay, 0.0)) ** 2
        rate = 1.0 / math.sqrt(N * max(math.log(problem.horizon * rows), 1.0))
        rate = min(1.0 / (256.0 * stable), rate)
        return Parameters(rate, None, math.inf, rate * 4096.0 * stable)

    def _rate(self, problem: Problem, N: float) -> float:
        H, S, A = problem.shape
        if self.dapo:
            return 1.0 / ((H * H if self.dynamics == "known" else H) * math.sqrt(N))
        if self.ftrl:
            return math.sqrt(max(math.log(H * N), 1.0) / N)
        if self.uob:
            rows = layered(problem) * A
            return math.sqrt(math.log(H * rows / DELTA) / (math.sqrt(rows) * N))
        if self.oreps:
            return math.sqrt(2.0 * math.log(S * A) / N)
        if self._weighted and self.arms:
            return math.sqrt(math.log(A) / N)
        return 1.0 / (H * (math.pow(N, 2 / 3) if self._weighted else math.sqrt(N)))

    def _exploration(self, N: float) -> float | None:
        if not self._weighted or self.ftrl:
            return None
        return 0.0 if self.arms else math.pow(N, -1 / 3)

    def _threshold(self, problem: Problem, D: float) -> float:
        H, S, A = problem.shape
        if self.dapo:
            return math.sqrt(D) / (H if self.dynamics == "known" else H * S * math.sqrt(A))
        if self.oreps or self.arms or self.ftrl or self.uob:
            return math.inf
        if self.stochastic:
            return math.sqrt(D / (H * self._rare_rows(problem)))
        if self.information == "bandit":
            return math.sqrt(D / (H * S * A)) if self._late else math.sqrt(D)
        return math.sqrt(D / (H * self._rare_rows(problem))) if self._late else math.inf


DELTA = 0.1
"""The failure probability that the step size of UOB-REPS takes."""
PATHS = ("late", "at once")
"""When trajectories come: together with the costs, or at the end of their episode."""


def oppo_full(
    problem: Problem, episodes: int, total_delay: float = 0.0, *, log_actions: bool = False
) -> dict[str, float]:
    """Delayed OPPO, full information (or averaged costs): eta = 1 / (H sqrt(K + D)).

    log_actions: give the minimiser of the bound H ln(A) / eta + eta H^3 (K + D), which has a
    factor sqrt(ln A) more.
    """
    rate = Setting(dynamics="known").at(problem, episodes, total_delay).learning_rate
    return {"learning_rate": rate * math.sqrt(math.log(problem.actions)) if log_actions else rate}


def oppo_bandit(problem: Problem, episodes: int, total_delay: float = 0.0) -> dict[str, float]:
    """Delayed OPPO, bandit feedback: eta = N^{-2/3} / H, gamma = N^{-1/3}, N = A^{3/2} K + D."""
    return _both(Setting(information="bandit", dynamics="known").at(problem, episodes, total_delay))


def exp3(problem: Problem, episodes: int, total_delay: float = 0.0) -> dict[str, float]:
    """Delayed EXP3, one step from one state: eta = sqrt(ln A / (A K + D)), gamma = 0."""
    setting = Setting(information="bandit", dynamics="known", arms=True)
    return _both(setting.at(problem, episodes, total_delay))


def oreps(problem: Problem, episodes: int, total_delay: float = 0.0) -> dict[str, float]:
    """Delayed O-REPS, full information: eta = sqrt(2 ln(S A) / (K + 3 D))."""
    setting = Setting(dynamics="known", oreps=True)
    return {"learning_rate": setting.at(problem, episodes, total_delay).learning_rate}


def dapo(
    problem: Problem, episodes: int, total_delay: float = 0.0, *, dynamics: str = "known"
) -> dict[str, float]:
    """DAPO: eta = (H^2 S A K + H^4 (K + D))^(-1/2), gamma = 2 eta H.

    dynamics: "known", or "unknown", where eta is H times as large.
    """
    setting = Setting(information="bandit", dynamics=dynamics, dapo=True)
    return _both(setting.at(problem, episodes, total_delay))


PRACTICE = 0.001
"""The barrier of FTRL for practice: eta / gamma."""


def ftrl(
    problem: Problem, episodes: int, total_delay: float = 0.0, *, max_delay: float | None = None
) -> dict[str, float]:
    """Delayed FTRL: eta and the barrier eta / gamma, as printed or for practice.

    With max_delay they are those of the paper: gamma = 1 / (4096 H (1 + d_max)^2) and
    eta = min(1 / (256 H (1 + d_max)^2), 1 / sqrt((S A K + D) ln(H S A K))).
    Without it they are for practice: eta = sqrt(ln(H N) / N) with N = S A K + D, and the barrier is
    `PRACTICE`. That eta has the logarithm where the bound of the paper asks for it.
    """
    setting = Setting(information="bandit", dynamics="known", ftrl=True)
    tuned = setting.at(problem, episodes, total_delay, max_delay=max_delay)
    barrier = PRACTICE if tuned.barrier is None else tuned.barrier
    return {"learning_rate": tuned.learning_rate, "barrier": barrier}


def uob_reps(
    problem: Problem, episodes: int, total_delay: float = 0.0, *, delta: float = 0.1
) -> dict[str, float]:
    """UOB-REPS: eta = gamma = sqrt(l / (X A K / H + sqrt(X A) D)), l = ln(H X A / delta).

    X = 2 + (H - 1) S. Without delays this is the paper's; the weight of D is ours.
    """
    setting = Setting(information="bandit", uob=True)
    tuned = setting.at(problem, episodes, total_delay).learning_rate
    delta = checks.real("delta", delta, 0.0, 1.0, above=True)
    rows = problem.horizon * layered(problem) * problem.actions
    rate = tuned * math.sqrt(math.log(rows / delta) / math.log(rows / DELTA))
    return {"learning_rate": rate, "exploration": rate}


def layered(problem: Problem) -> int:
    """X = 2 + (H - 1) S: a first state, the states of every later step, and an end."""
    return 2 + (problem.horizon - 1) * problem.states


def _both(tuned: Parameters) -> dict[str, float]:
    return {"learning_rate": tuned.learning_rate, "exploration": tuned.exploration or 0.0}


def exploration_threshold(problem: Problem, max_delay: float, delta: float = 0.1) -> float:
    """Explicit exploration: more than 2 d_max ln(H S A / delta) visits must have been observed."""
    checks.instance("problem", problem, Problem)
    max_delay = checks.real("max_delay", max_delay, 0.0)
    delta = checks.real("delta", delta, 0.0, 1.0, above=True)
    rows = problem.horizon * problem.states * problem.actions
    return 2.0 * max_delay * math.log(rows / delta)
