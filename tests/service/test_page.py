"""The page: everything it needs is in it, and where a browser is installed, it shows a learner."""

import re

import httpx
import pytest

from browsing import needs_browser, seen
from limits import LIMIT
from serving import SHOP, InProcess, config, running


@pytest.mark.parametrize("path", ["/", "/docs"])
def test_a_page_needs_nothing_else(tmp_path, path):
    with InProcess(config(tmp_path, learners=[SHOP])) as client:
        answer = client.get(path)
        told = client.get("/v1/learners/shop").json()
        assert client.get("/redoc").status_code == 404
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/html")
    assert "default-src 'none'" in answer.headers["content-security-policy"]
    html = answer.text
    links = re.findall(r"""(?:src|href|url|import)\s*[=(]\s*["']?([^"')\s>]+)""", html)
    assert links == []
    addresses = set(re.findall(r"(?:\w+:)?//[^\"'\s]+", html))
    assert addresses <= {"http://www.w3.org/2000/svg"}  # the name of SVG, not a place
    assert not re.search(r"innerHTML|outerHTML|insertAdjacent|document\.write|eval\(", html)
    assert 'name="viewport"' in html
    if path == "/":
        for name in set(re.findall(r"told\.(\w+)", html)) - {"why"}:
            assert name in told, name


def test_what_docs_shows_names_every_answer(tmp_path):
    """The models of answers are in the description, not just "string"."""
    with InProcess(config(tmp_path, learners=[SHOP])) as client:
        paths = client.get("/openapi.json", timeout=LIMIT).json()["paths"]
    for path, model in (("decide", "Decision"), ("episodes", "Begun"), ("feedback", "OutcomeBody")):
        answer = paths["/v1/learners/{name}/" + path]["post"]["responses"]["200"]
        shown = answer["content"]["application/json"]["schema"]
        assert shown == {"$ref": f"#/components/schemas/{model}"}


@pytest.mark.long
@needs_browser
def test_a_browser_shows_the_learner(tmp_path):
    with running(tmp_path, config(tmp_path, learners=[SHOP])) as server:
        base = f"{server.url}/v1/learners/shop"
        for k in range(30):
            httpx.post(f"{base}/episodes", json={}, timeout=LIMIT)
            httpx.post(f"{base}/decide", json={"episode": k, "step": 0, "state": 0}, timeout=LIMIT)
            httpx.post(f"{base}/feedback", json={"episode": k, "costs": [0.5]}, timeout=LIMIT)
        shown = seen(tmp_path, server.url)
        paths = httpx.get(f"{server.url}/openapi.json", timeout=LIMIT).json()["paths"]
        described = seen(tmp_path, f"{server.url}/docs")
    assert 'id="learner-shop"' in shown
    assert "<b>30</b><span>episodes</span>" in shown
    assert shown.count("<rect") >= 2
    assert described.count("<details>") == sum(map(len, paths.values()))
    for text in (*paths, "probability", "429 Too Many Requests", '{"episode":0,"end":0}'):
        assert text in described, text
