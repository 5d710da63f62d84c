import copy
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import belated as bl
from belated.delays import missing_feedback, total_delay

delay_lists = st.lists(st.one_of(st.integers(0, 30), st.just(bl.NEVER)), min_size=1, max_size=60)


@given(delay_lists)
def test_feedback_arrives_exactly_once_and_exactly_on_time(delays):
    line, seen = bl.DelayLine(), {}
    for k in range(len(delays) + 31):
        if k < len(delays):
            line.push([bl.Costs(k, np.zeros(1))], delays[k])
        released = [record.episode for record in line.release(k)]
        assert released == sorted(released)
        for episode in released:
            assert episode not in seen
            seen[episode] = k
    assert seen == {k: k + d for k, d in enumerate(delays) if d != bl.NEVER}
    assert len(line) == 0


@given(delay_lists)
def test_delay_identities(delays):
    """T5: sums over missing feedback, pending episodes and batches, with lost feedback."""
    d = np.array(delays)
    K = len(d)
    j = np.arange(1, K + 1)
    arrival = j + d
    D = total_delay(d)
    assert sum(min(delay, K - k) for k, delay in enumerate(delays, start=1)) == D
    missing = missing_feedback(d)
    by_hand = [sum(1 for i in range(k + 1) if i + d[i] > k) for k in range(K)]
    assert missing.tolist() == by_hand
    assert missing.sum() == np.minimum(d, K - j + 1).sum()
    pending = np.concatenate([[0], missing[:-1]]) + 1
    assert pending.sum() == K + D
    batches = np.array([(arrival == k).sum() for k in j])
    assert (batches**2).sum() <= K + 2 * D
    assert (batches * missing).sum() <= D
    assert missing.max() <= min(d.max(), K)


def draw(model, n=20_000, seed=0):
    return model.draw(n, np.random.default_rng(seed))


def test_models_have_the_moments_they_promise():
    n = 20_000
    assert np.all(draw(bl.delays.none()) == 0)
    assert np.all(draw(bl.delays.fixed(7)) == 7)
    uniform = draw(bl.delays.uniform(2, 5))
    assert set(uniform) == {2, 3, 4, 5}
    geometric = draw(bl.delays.geometric(10))
    assert geometric.min() == 0
    assert geometric.mean() == pytest.approx(10, abs=4 * np.sqrt(110 / n))
    assert np.mean(geometric == 0) == pytest.approx(1 / 11, abs=0.01)
    assert draw(bl.delays.poisson(3)).mean() == pytest.approx(3, abs=4 * np.sqrt(3 / n))
    heavy = draw(bl.delays.heavy_tailed(0.5, scale=2))
    assert np.mean(heavy >= 198) == pytest.approx((1 + 198 / 2) ** -0.5, abs=0.01)
    assert heavy.max() > 1e6
    assert heavy.max() < bl.NEVER
    lost = draw(bl.delays.lost(0.3, bl.delays.fixed(2)))
    assert set(lost) == {2, bl.NEVER}
    assert np.mean(lost == bl.NEVER) == pytest.approx(0.3, abs=0.02)


def test_bursts_come_together():
    delays = draw(bl.delays.bursts(5), 12)
    played = np.arange(1, 13) + delays
    assert played.tolist() == [5] * 5 + [10] * 5 + [15] * 2
    late = draw(bl.delays.bursts(5, bl.delays.lost(0.2, bl.delays.geometric(3))), 500)
    kept = late != bl.NEVER
    assert np.all((np.arange(1, 501) + late)[kept] % 5 == 0)
    assert 0.1 < np.mean(~kept) < 0.3


@given(delay_lists)
def test_monotone_arrivals_never_overtake(delays):
    model = bl.delays.monotone(bl.delays.trace(delays))
    d = draw(model, len(delays))
    given_delays = np.array(delays)
    kept = d != bl.NEVER
    assert np.array_equal(kept, given_delays != bl.NEVER)
    arrival = (np.arange(len(d)) + d)[kept]
    assert np.all(np.diff(arrival) >= 0)
    assert np.all(d >= np.where(kept, given_delays, 0))
    fifo = np.maximum.accumulate((np.arange(len(d)) + given_delays)[kept])
    assert np.array_equal(arrival, fifo)


def test_trace_from_array():
    trace = bl.delays.trace([3, 1.0, np.nan, np.inf])
    assert draw(trace, 4).tolist() == [3, 1, bl.NEVER, bl.NEVER]
    with pytest.raises(ValueError, match="at most 4"):
        draw(trace, 5)
    assert draw(bl.delays.trace([3, 1], repeat=True), 5).tolist() == [3, 1, 3, 1, 3]


def test_never_may_stand_among_fractions():
    model = bl.delays.trace([3.0, bl.NEVER, np.inf])
    assert draw(model, 3).tolist() == [3, bl.NEVER, bl.NEVER]


def test_delays_beyond_all_bounds_stay_delays():
    heavy = draw(bl.delays.heavy_tailed(0.01), 1000)
    assert heavy.min() >= 0
    assert heavy.max() == 2**61


def test_what_was_not_asked_for_in_time_comes_later_oldest_first():
    line = bl.DelayLine()
    for k, delay in enumerate([5, 3, 0]):
        line.push([bl.Costs(k, [0.0])], delay)
    assert [record.episode for record in line.release(9)] == [0, 1, 2]
    assert len(line) == 0


d = bl.delays
MODELS = {
    "none()": d.none,
    "fixed(delay=3)": lambda: d.fixed(3),
    "fixed(delay=NEVER)": lambda: d.fixed(bl.NEVER),
    "uniform(low=2, high=9)": lambda: d.uniform(2, 9),
    "geometric(mean=5)": lambda: d.geometric(5),
    "geometric(mean=0.1)": lambda: d.geometric(0.1),
    "poisson(mean=2.5)": lambda: d.poisson(2.5),
    "heavy_tailed(index=1.5)": lambda: d.heavy_tailed(1.5),
    "heavy_tailed(index=0.5, scale=2)": lambda: d.heavy_tailed(0.5, 2),
    "lost(probability=0.3)": lambda: d.lost(0.3),
    "lost(probability=0.3, otherwise=fixed(delay=2))": lambda: d.lost(0.3, d.fixed(2)),
    "bursts(size=5)": lambda: d.bursts(5),
    "bursts(size=5, within=poisson(mean=1))": lambda: d.bursts(5, d.poisson(1)),
    "monotone(model=geometric(mean=9))": lambda: d.monotone(d.geometric(9)),
    "trace([3, 1, NEVER])": lambda: d.trace([3, 1, np.nan]),
    "trace([3, 1], repeat=True)": lambda: d.trace([3, 1], repeat=True),
    "lost(probability=1, otherwise=trace([2]))": lambda: d.lost(1, d.trace([2])),
}


def test_a_model_prints_as_the_call_that_makes_it():
    names = {name: getattr(d, name) for name in vars(d) if not name.startswith("_")}
    for text, make in MODELS.items():
        assert repr(make()) == text
        assert eval(text, names) == make()
    assert repr(d.trace(np.arange(40))) == (
        "trace([0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, ... 40 in all])"
    )


def test_models_are_equal_if_their_parameters_are():
    models = [make() for make in MODELS.values()]
    for i, (model, make) in enumerate(zip(models, MODELS.values(), strict=True)):
        assert model == make()
        assert hash(model) == hash(make())
        assert [model == other for other in models] == [i == j for j in range(len(models))]
    assert len(set(models)) == len(models)
    assert d.geometric(5) == d.geometric(5.0) != d.poisson(5)
    assert d.lost(0.3) == d.lost(0.3, d.none())
    assert d.trace([2.0, np.inf]) == d.trace([2, bl.NEVER]) != d.trace([2])


@pytest.mark.parametrize("text", MODELS)
def test_copies_of_a_model_draw_the_same(text):
    model = MODELS[text]()
    drawn = model.draw(1, np.random.default_rng(3))
    for twin in (pickle.loads(pickle.dumps(model)), copy.deepcopy(model)):
        assert twin == model
        assert repr(twin) == text
        assert np.array_equal(twin.draw(1, np.random.default_rng(3)), drawn)


def test_a_model_cannot_be_changed():
    with pytest.raises(AttributeError):
        d.geometric(5).mean = 6
    given = np.array([3, 1])
    model = d.trace(given)
    given[0] = 9
    for twin in (model, pickle.loads(pickle.dumps(model))):
        assert twin.delays.tolist() == [3, 1]
        with pytest.raises(ValueError, match="read-only"):
            twin.delays[0] = 7


def test_a_model_draws_what_it_drew_in_the_first_release():
    """Sums of 1,000 draws with seed 7, so that recorded runs can be repeated."""
    expected = {
        "uniform(low=2, high=9)": 5_616,
        "geometric(mean=5)": 4_892,
        "geometric(mean=0.1)": 97,
        "poisson(mean=2.5)": 2_535,
        "heavy_tailed(index=1.5)": 1_371,
        "heavy_tailed(index=0.5, scale=2)": 6_274_610,
        "lost(probability=0.3, otherwise=fixed(delay=2))": 1_386,
        "bursts(size=5)": 2_000,
        "bursts(size=5, within=poisson(mean=1))": 3_050,
        "monotone(model=geometric(mean=9))": 26_851,
    }
    for text, total in expected.items():
        drawn = draw(MODELS[text](), 1000, 7)
        assert int(drawn[drawn != bl.NEVER].sum()) == total, text


def test_the_line_takes_any_record_with_an_episode():
    class Note:
        def __init__(self, episode):
            self.episode = episode

    line = bl.DelayLine()
    notes = [Note(4), Note(2)]
    line.push(notes, 3)
    assert len(line) == 2
    assert line.release(4) == []
    assert line.release(5) == [notes[1]]
    assert line.release(7) == [notes[0]]
