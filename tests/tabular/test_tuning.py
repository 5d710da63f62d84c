"""The parameters of every setting, against a second copy of the table."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import belated as bl
from belated.tuning import FullInformation, Parameters
from settings import Setting


def weighted_paths_late(H, S, A, N, D):
    return A**1.5, N ** (-2 / 3) / H, N ** (-1 / 3), (D / (H * S * A)) ** 0.5


# The arguments of a setting, and kappa, eta, gamma, beta as functions of H, S, A, N and D.
TABLE = {
    "full, known": (
        {"dynamics": "known"},
        lambda H, S, A, N, D: (1, N**-0.5 / H, None, math.inf),
    ),
    "full, unknown, paths at once": (
        {"paths": "at once"},
        lambda H, S, A, N, D: (1, N**-0.5 / H, None, math.inf),
    ),
    "full, unknown, paths late": (
        {},
        lambda H, S, A, N, D: (1, N**-0.5 / H, None, (D / (H * S * A)) ** 0.5),
    ),
    "full, unknown, paths late, exploring": (
        {"explores": True},
        lambda H, S, A, N, D: (1, N**-0.5 / H, None, (D / (H * S)) ** 0.5),
    ),
    "full, unknown, paths late, in order": (
        {"in_order": True},
        lambda H, S, A, N, D: (1, N**-0.5 / H, None, math.inf),
    ),
    "bandit, known": (
        {"information": "bandit", "dynamics": "known"},
        lambda H, S, A, N, D: (A**1.5, N ** (-2 / 3) / H, N ** (-1 / 3), D**0.5),
    ),
    "bandit, unknown, paths at once": (
        {"information": "bandit", "paths": "at once"},
        lambda H, S, A, N, D: (A**1.5, N ** (-2 / 3) / H, N ** (-1 / 3), D**0.5),
    ),
    "bandit, unknown, paths late": (
        {"information": "bandit"},
        weighted_paths_late,
    ),
    "bandit, unknown, paths late, in order, exploring": (
        {"information": "bandit", "in_order": True, "explores": True},
        weighted_paths_late,
    ),
    "stochastic": (
        {"information": "bandit", "stochastic": True},
        lambda H, S, A, N, D: (1, N**-0.5 / H, None, (D / (H * S * A)) ** 0.5),
    ),
    "stochastic, exploring": (
        {"information": "bandit", "stochastic": True, "explores": True},
        lambda H, S, A, N, D: (1, N**-0.5 / H, None, (D / (H * S)) ** 0.5),
    ),
    "stochastic, known": (
        {"information": "bandit", "stochastic": True, "dynamics": "known", "paths": "at once"},
        lambda H, S, A, N, D: (1, N**-0.5 / H, None, (D / (H * S * A)) ** 0.5),
    ),
    "arms": (
        {"information": "bandit", "arms": True},
        lambda H, S, A, N, D: (A, (math.log(A) / N) ** 0.5, 0.0, math.inf),
    ),
    "DAPO, known": (
        {"information": "bandit", "dynamics": "known", "dapo": True},
        lambda H, S, A, N, D: (1 + S * A / H**2, N**-0.5 / H**2, 2 / (H * N**0.5), D**0.5 / H),
    ),
    "DAPO, unknown": (
        {"information": "bandit", "dapo": True},
        lambda H, S, A, N, D: (
            1 + S * A / H**2,
            N**-0.5 / H,
            2 / N**0.5,
            (D / (H**2 * S**2 * A)) ** 0.5,
        ),
    ),
    "O-REPS": (
        {"oreps": True},
        lambda H, S, A, N, D: (1, (2 * math.log(S * A) / N) ** 0.5, None, math.inf),
    ),
    "O-REPS, known": (
        {"oreps": True, "dynamics": "known"},
        lambda H, S, A, N, D: (1, (2 * math.log(S * A) / N) ** 0.5, None, math.inf),
    ),
}


def check(parameters, expected):
    _, eta, gamma, beta = expected
    assert parameters.learning_rate == pytest.approx(eta)
    assert parameters.exploration == (gamma if gamma is None else pytest.approx(gamma))
    assert parameters.threshold == pytest.approx(beta)


@pytest.mark.parametrize(("says", "row"), TABLE.values(), ids=TABLE.keys())
def test_the_table(says, row):
    problem, setting = bl.Problem(5, 3, 4), Setting(**says)
    check(setting.phase(problem, 2.0**7), row(4, 5, 3, 2.0**7, 2.0**7))
    kappa = row(4, 5, 3, 1, 0)[0]
    assert setting.weight(problem) == pytest.approx(kappa)
    K, D = 100, 700
    N = kappa * K + (3 * D if "oreps" in says else D)
    check(setting.at(problem, K, D), row(4, 5, 3, N, D))
    without = setting.at(problem, K)
    check(without, row(4, 5, 3, kappa * K, 0))
    assert without.threshold in (0.0, math.inf)


def test_the_bound_of_oreps_with_unknown_transitions_is_unproved():
    """The rate that the paper states for paths at once, and none for late paths."""
    problem, K, D = bl.Problem(5, 3, 4), 100, 700
    at_once, late = (Setting(oreps=True, paths=paths) for paths in ("at once", "late"))
    known = Setting(oreps=True, dynamics="known")
    assert [setting.proved for setting in (at_once, late, known)] == [False, False, True]
    assert at_once.bound(problem, K, D) == pytest.approx(4**1.5 * 5 * 300**0.5 + 4 * 700**0.5)
    assert late.bound(problem, K, D) == math.inf
    assert known.bound(problem, K, D) == pytest.approx(8 * (2 * math.log(15) * 2200) ** 0.5)


def test_the_skipping_corollary_stands():
    """E14 is withdrawn: beta = sqrt(D / (H S)) keeps the claimed rate in every bandit setting.

    The loss by skipping, capped by the trivial bound, is at most 1.4 times the claimed rate.
    """
    worst = 0.0
    for H, S, A, K in itertools.product(
        (1, 4, 32), (1, 8, 64, 512), (2, 16), 10 ** np.arange(1, 9)
    ):
        for D in 10.0 ** np.arange(-1, 16):
            beta = math.sqrt(D / (H * S))
            claimed = H * S * A**0.5 * K ** (2 / 3) + H**2 * D ** (2 / 3)
            lost = min(H**2 * beta + H * D / beta, H * K)
            worst = max(worst, lost / claimed)
    assert worst <= 1.4


def test_what_the_standing_assumption_hides():
    """E38, E39: S >= max(A, H^2) covers the terms that the paper's rates leave out."""
    sizes = list(itertools.product((1, 2, 5, 12), (1, 6, 25, 150), (2, 3, 16, 150)))
    for H, S, A in sizes:
        if max(A, H * H) <= S:
            assert H * H * A <= H * S * A**0.5 * (1 + 1e-12)  # x K^(2/3), bandit feedback
            assert H * H <= H**1.5 * S * A**0.5  # x sqrt(K), full information, paths at once
    assert any(H * H * A > H * S * A**0.5 for H, S, A in sizes)
    # the doubling proof: H^2 S K^(2/3), which its "A <= S" gives, is not covered
    H, S, A = 5, 25, 4
    assert max(A, H * H) <= S
    assert H * H * S > H * S * A**0.5 >= H * H * A
    # the paper's own last line, with its eta and gamma, against the terms that are kept
    for (H, S, A), K, D in itertools.product(sizes, (10, 10**4, 10**8), (0, 10**3, 10**9)):
        N = A**1.5 * K + D
        eta, gamma = 1 / (H * N ** (2 / 3)), N ** (-1 / 3)
        last = gamma * K * H * S * A + H / eta + eta / gamma * H**3 * (K + D)
        kept = H * S * A**0.5 * K ** (2 / 3) + H * H * (A * K ** (2 / 3) + D ** (2 / 3))
        assert last <= 2 * kept * (1 + 1e-12)
        for says in ({"dynamics": "known"}, {"paths": "at once"}, {}):
            setting = Setting(information="bandit", **says)
            assert setting.bound(bl.Problem(S, A, H), K, D) == pytest.approx(kept)
    # 6 states, 3 actions, 5 steps, D = 10 K, by hand: K^(1/3) > S sqrt A + H A + H 10^(2/3)
    problem, bandit = bl.Problem(6, 3, 5), Setting(information="bandit")
    least = (6 * 3**0.5 + 5 * 3 + 5 * 10 ** (2 / 3)) ** 3
    assert bandit.useful_from(problem, 10.0) == math.ceil(least) == 114_794
    assert math.ceil((6 * 3**0.5 + 5 * 10 ** (2 / 3)) ** 3) == 37_934  # without the term
    assert max(3, 5 * 5) > 6


def test_what_is_proved():
    """No later bound for bandit feedback is proved for an agent as it is tuned here."""
    bandit = {"information": "bandit"}
    for name, dynamics in itertools.product(("dapo", "ftrl", "uob"), ("known", "unknown")):
        assert not Setting(**bandit, dynamics=dynamics, **{name: True}).proved
    assert Setting(**bandit, arms=True).proved
    assert Setting(**bandit, dynamics="known").proved


def test_bounds_of_late_paths():
    """The paper's terms for H = 4, S = 5, A = 3, K = 100, D = 720, at the best threshold."""
    problem, K, D = bl.Problem(5, 3, 4), 100, 720

    def bound(**says):
        return pytest.approx(Setting(**says).bound(problem, K, D))

    model, drift = 16 * 5 * 300**0.5, 16 * 720**0.5
    assert model + drift + 16 * 15 * 12**0.5 == bound()  # H^2 S A beta, beta^2 = D / (H S A)
    assert model + drift + 16 * 5 * 6 == bound(explores=True)  # H^2 S beta, beta^2 = D / (H S)
    in_order = {"in_order": True}
    order = 4**1.5 * 5 * 300**0.5 + 16 * 820**0.5  # H^2 sqrt(K + D), for all sizes
    assert order == bound(**in_order) == bound(paths="at once")
    fixed_laws = {"information": "bandit", "stochastic": True}
    assert model + drift + 16 * 5 * 6 == bound(**fixed_laws, explores=True)  # as full information
    assert model + 16 * 5 * 6 == bound(**fixed_laws, explores=True, ucbvi=True)  # no sqrt(D)
    bandit = {"information": "bandit"}
    assert bound(**bandit) == bound(**bandit, **in_order)  # order does not help here
    unproved = (Setting(**fixed_laws), Setting(**fixed_laws, explores=True))
    assert not any(setting.proved for setting in unproved)
    assert all(
        Setting(**says).proved for says in ({}, in_order, bandit, {**fixed_laws, "ucbvi": True})
    )


@given(
    *(st.integers(1, 9) for _ in range(3)),
    st.integers(1, 10**6),
    st.floats(0, 1e9),
    st.sampled_from(list(TABLE)),
)
def test_the_table_at_any_size(S, A, H, K, D, name):
    says, row = TABLE[name]
    kappa = row(H, S, A, 1, 0)[0]
    N = kappa * K + (3 * D if says.get("oreps") else D)
    check(Setting(**says).at(bl.Problem(S, A, H), K, D), row(H, S, A, N, D))


def test_the_functions_give_the_numbers_of_the_table():
    problem, K, D = bl.Problem(5, 3, 4), 1000, 5000
    N = 3**1.5 * K + D
    assert bl.tuning.oppo_bandit(problem, K, D) == pytest.approx(
        {"learning_rate": N ** (-2 / 3) / 4, "exploration": N ** (-1 / 3)}
    )
    full = 1 / (4 * math.sqrt(K + D))
    assert bl.tuning.oppo_full(problem, K, D) == pytest.approx({"learning_rate": full})
    best = bl.tuning.oppo_full(problem, K, D, log_actions=True)
    assert best == pytest.approx({"learning_rate": full * math.sqrt(math.log(3))})
    arms = math.sqrt(math.log(3) / (3 * K + D))
    expected = {"learning_rate": arms, "exploration": 0.0}
    assert bl.tuning.exp3(bl.Problem(1, 3, 1), K, D) == pytest.approx(expected)
    measure = math.sqrt(2 * math.log(15) / (K + 3 * D))
    assert bl.tuning.oreps(problem, K, D) == pytest.approx({"learning_rate": measure})


def test_the_threshold_of_explicit_exploration():
    problem = bl.Problem(5, 3, 4)
    threshold = bl.tuning.exploration_threshold
    assert threshold(problem, 6, 0.1) == pytest.approx(12 * math.log(60 / 0.1))
    assert threshold(problem, 6) == threshold(problem, 6, 0.1)
    assert threshold(problem, 0) == 0.0


def test_settings_and_parameters_are_values():
    assert Setting() == Setting(information="full", dynamics="unknown", paths="late")
    assert Setting(arms=True) != Setting()
    assert len({Setting(), Setting(), Setting(oreps=True)}) == 2
    made = Setting(paths="at once")
    assert eval(repr(made), {"FullInformation": FullInformation}) == made
    assert Parameters(0.1, None, math.inf) == Parameters(0.1, None, math.inf)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"dynamics": "unkown"}, "did you mean 'unknown'"),
        ({"paths": "immediate"}, "paths must be one of 'late', 'at once'"),
        ({"explores": None}, "explores must be True or False"),
        ({"in_order": 0}, "in_order must be True or False"),
    ],
)
def test_wrong_settings(wrong, message):
    with pytest.raises(ValueError, match=message):
        Setting(**wrong)
