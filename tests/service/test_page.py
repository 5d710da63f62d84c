"""The page: everything it needs is in it, and where a browser is installed, it shows a learner."""

import re
import shutil
import subprocess

import httpx
import pytest

from belated.service import page
from serving import SHOP, InProcess, config, running

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")


def test_the_page_needs_nothing_else(tmp_path):
    with InProcess(config(tmp_path, learners=[SHOP])) as client:
        answer = client.get("/")
        assert answer.status_code == 200
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        told = client.get("/v1/learners/shop").json()
    links = re.findall(r"""(?:src|href|url|import)\s*[=(]\s*["']?([^"')\s>]+)""", page.HTML)
    assert links == []
    addresses = set(re.findall(r"https?://[^\"'\s]+", page.HTML))
    assert addresses == {"http://www.w3.org/2000/svg"}  # the name of SVG, not a place
    assert not re.search(r"innerHTML|outerHTML|insertAdjacent|document\.write|eval\(", page.HTML)
    assert 'name="viewport"' in page.HTML
    for name in set(re.findall(r"told\.(\w+)", page.HTML)) - {"why"}:
        assert name in told, name


def browser():
    return next(filter(None, map(shutil.which, BROWSERS)), None)


@pytest.mark.slow
@pytest.mark.skipif(browser() is None, reason="no Chromium is installed")
def test_a_browser_shows_the_learner(tmp_path):
    with running(tmp_path, config(tmp_path, learners=[SHOP])) as server:
        base = f"{server.url}/v1/learners/shop"
        for k in range(30):
            httpx.post(f"{base}/episodes", json={})
            httpx.post(f"{base}/decide", json={"episode": k, "step": 0, "state": 0})
            httpx.post(f"{base}/feedback", json={"episode": k, "costs": [0.5]})
        shown = subprocess.run(
            [browser(), "--headless", "--no-sandbox", "--disable-gpu", "--window-size=390,844",
             "--virtual-time-budget=4000", "--dump-dom", server.url],
            capture_output=True, text=True, timeout=120, check=True,
        ).stdout  # fmt: skip
    assert 'id="learner-shop"' in shown
    assert "<b>30</b><span>episodes</span>" in shown
    assert shown.count("<rect") >= 2
