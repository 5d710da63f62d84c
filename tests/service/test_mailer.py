"""The mailer of the examples decides alike through HTTP, with a crash, and in the library."""

import importlib
import signal
from pathlib import Path

import numpy as np
import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture
def mailer(monkeypatch):
    """The example, with fewer mails a day."""
    monkeypatch.syspath_prepend(str(EXAMPLES))
    module = importlib.import_module("mailer_served")
    monkeypatch.setattr(module, "PER_DAY", 40)
    return module


@pytest.mark.slow
def test_the_mailer_through_http_scores_as_in_the_library(tmp_path, mailer):
    """The same records at the same times give the same decisions, also after a crash."""
    plan = mailer.Plan(days=14, crash=4, story=5, question=12)
    beside = mailer.mailed(mailer.InLibrary(plan), plan, 1)
    server = mailer.Server(tmp_path)
    try:
        served = mailer.mailed(mailer.Served(server, plan), plan, 1)
        status = server.client.status()
        rows = mailer.logged(server.url)
    finally:
        server.stop(signal.SIGTERM)
    assert np.array_equal(served.actions, beside.actions)
    assert np.array_equal(served.probabilities, beside.probabilities)
    assert mailer.score(served, plan) == mailer.score(beside, plan)
    assert set(served.actions[12 * 40 :].tolist()) == {0, 2, 3}
    assert status["begun"] == 14 * 40
    assert status["problem"]["names"] == ["plain", "question", "discount", "story"]
    assert [int(row["action"]) for row in rows] == served.actions.tolist()
    assert [float(row["probability"]) for row in rows] == served.probabilities.tolist()
    assert 0 < sum(bool(row["reported"]) for row in rows) < 0.3 * len(rows)
    for _, found, truth in mailer.second_opinion(rows, served, plan):
        assert found.low <= found.value <= found.high
        assert abs(found.value - truth) < 0.15
