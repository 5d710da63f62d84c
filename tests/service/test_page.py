"""The pages need no other file, and every number in a browser is that of the API."""

import base64
import hashlib
import re
from pathlib import Path

import numpy as np
import pytest

from belated.service import page
from belated.service.config import new_token
from browsing import Browser, needs_browser
from limits import LIMIT, until
from serving import ROBOT, SHOP, InProcess, Listening, config

DAY = 86400.0
HOSTILE = "</script><img src=x onerror=document.title='taken'> & \"'"
MAIL = {
    "name": "mail",
    "actions": ["plain", HOSTILE, "discount"],
    "features": {"age": "number", "customer": ["new", "loyal"]},
    "agent": {"kind": "linear_sampler", "silence": 0.0, "holdout": 0.2},
    "deadline_seconds": 5 * DAY,
    "grace": 2 * DAY,
}
FULL = {
    "name": "full",
    "problem": {"states": 1, "actions": 2, "horizon": 1},
    "information": "full",
}
SHOWN = "document.getElementById('say').textContent.startsWith('As of')"
NUMBERS = """[...document.querySelectorAll("data")].map(
    item => [item.dataset.from || "report", item.dataset.of, item.value, item.textContent])"""
TILES = """[...document.querySelectorAll(".numbers > div")].map(
    item => [item.lastChild.textContent, item.querySelector("data").dataset.of])"""
COLUMNS = """(table => [...table.rows[1].cells].map((cell, i) => [
    table.tHead.rows[0].cells[i].textContent,
    cell.querySelector("data")?.dataset.of.split(".").at(-1) ?? ""
]))(document.querySelector("table.stack"))"""
LOOSE = """(() => {
  const found = [], all = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  const known = "data, time, nav, script, style, dt, .uplot, .tick, .ago, #say";
  while (all.nextNode()) {
    const text = all.currentNode.textContent.trim();
    if (/\\d/.test(text) && !all.currentNode.parentNode.closest(known)) found.push(text);
  }
  return found;
})()"""
MANY = {"days": 1, "hours": 24, "minutes": 1440, "seconds": 86400}


@pytest.fixture
def clock(monkeypatch):
    """A stopped clock: a list that holds its time."""
    at = [20_000 * DAY]
    monkeypatch.setattr("belated.service.session.steady_clock", lambda after: lambda: at[0])
    return at


@pytest.mark.parametrize("path", ["/", "/docs"])
def test_a_page_needs_nothing_else(tmp_path, path):
    with InProcess(config(tmp_path, learners=[SHOP])) as client:
        answer = client.get(path)
        report = client.get("/v1/learners/shop/report").json()
        status = client.get("/v1/learners/shop").json()
        assert client.get("/redoc").status_code == 404
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/html")
    html = answer.text
    links = re.findall(r"""(?:src|href|url|import)\s*[=(]\s*["']?([^"')\s>]+)""", html)
    assert links == []
    addresses = set(re.findall(r"(?:\w+:)?//[^\"'\s]+", html))
    assert addresses <= {"https://github.com/leeoniya/uPlot"}  # in a comment
    assert not re.search(r"innerHTML|outerHTML|insertAdjacent|document\.write|eval\(", html)
    assert 'name="viewport"' in html
    assert "{{" not in html.replace("{{uplot", "")
    if path == "/":
        for name in set(re.findall(r"told\.(\w+)", html)) - {"why"}:
            assert name in report, name
        for name in set(re.findall(r"status\.(\w+)", html)) - {"deadline_unit"}:
            assert name in status, name


@pytest.mark.parametrize("path", ["/", "/docs"])
def test_the_policy_allows_the_scripts_of_the_page_and_no_others(tmp_path, path):
    with InProcess(config(tmp_path, learners=[SHOP])) as client:
        answer = client.get(path)
    policy = dict(
        item.strip().split(" ", 1)
        for item in answer.headers["content-security-policy"].split(";")
    )  # fmt: skip
    assert policy["default-src"] == policy["base-uri"] == policy["form-action"] == "'none'"
    assert policy["connect-src"] == "'self'"
    assert "unsafe" not in str(policy)
    for kind in ("script", "style"):
        found = re.findall(rf"<{kind}>(.*?)</{kind}>", answer.text, re.DOTALL)
        assert found
        for text in found:
            hashed = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
            assert f"'sha256-{hashed}'" in policy[f"{kind}-src"].split()


def test_the_library_of_charts_is_whole_and_has_its_licence():
    web = Path(page.__file__).with_name("web") / "uplot"
    script = (web / "uPlot.iife.min.js").read_text()
    assert script.startswith("/*! https://github.com/leeoniya/uPlot (v1.6.32) */")
    licence = (web / "LICENSE").read_text()
    assert licence.startswith("The MIT License")
    assert licence in page.HTML


def test_what_docs_shows_names_every_answer(tmp_path):
    """The models of answers are in the description, not just "string"."""
    with InProcess(config(tmp_path, learners=[SHOP])) as client:
        paths = client.get("/openapi.json", timeout=LIMIT).json()["paths"]
    for path, model in (
        ("decide", "Done"),
        ("episodes", "Done"),
        ("feedback", "Outcome"),
    ):
        answer = paths["/v1/learners/{name}/" + path]["post"]["responses"]["200"]
        shown = answer["content"]["application/json"]["schema"]
        assert shown == {"$ref": f"#/components/schemas/{model}"}


def mailed(client, clock, days=12, per_day=25):
    """Let some days of mails pass; a purchase reports two days later."""
    rng = np.random.default_rng(0)
    base, waiting = "/v1/learners/mail", []
    for _ in range(days):
        clock[0] += DAY
        asked = [
            {"features": {"age": int(rng.integers(20, 70)), "customer": ["new", "loyal"][k % 2]}}
            for k in range(per_day)
        ]
        made = client.post(f"{base}/decide/batch", json={"decisions": asked}).json()["decisions"]
        bought = [one["episode"] for one in made if rng.random() < 0.1 + 0.2 * one["action"]]
        waiting.append([{"episode": number, "reward": 12.5} for number in bought])
        if len(waiting) > 2:
            client.post(f"{base}/feedback/batch", json={"records": waiting.pop(0)})


def learned(client, name):
    """Wait until the agent has learned all; returns its report and its status."""
    base = f"/v1/learners/{name}"
    until(lambda: not client.get(base).json()["waiting"])
    return {"report": client.get(f"{base}/report").json(), "status": client.get(base).json()}


def valued(text):
    """The number that a text shows, and by how much rounding may have moved it."""
    found = re.fullmatch(r"(> )?(-?[\d,.]+(?:e-?\d+)?)(?: (%|days|hours|minutes|seconds))?", text)
    assert found, text
    value = float(found[2].replace(",", ""))
    many = {"%": 100.0, None: 1.0, **MANY}[found[3]]
    whole = abs(value) >= 100 or (found[3] == "%" and value >= 10)
    moved = 0.5 if whole else 0.05 * abs(value) if found[3] == "%" else 0.005 * abs(value)
    return value / many, max(moved + bool(found[1]), 1e-12) / many


def check_numbers(browser, told, least):
    """Check that every number of the page is that of the API at its place, up to rounding."""
    found = browser.run(NUMBERS)
    assert len(found) >= least
    for source, path, value, text in found:
        item = told[source]
        for key in path.split("."):
            item = item[int(key) if isinstance(item, list) else key]
        assert float(value) == float(item), path
        if path == "deadline" and told["status"]["deadline_unit"] == "seconds":
            item /= DAY
        shown, moved = valued(text)
        assert abs(shown - item) <= moved * 1.001, (path, text, item)
    report = told["report"]
    texts = [report["verdict"], report["delays"]["words"].capitalize() + ".", report["name"]]
    texts += [one["text"] for one in report["warnings"]]
    texts += [f"action {one['name']}" for one in report["actions"]]
    for text in browser.run(LOOSE):
        words = re.sub(r"95 % interval|newest 7 days", "", text)
        assert text in texts or not re.search(r"\d", words), text
    warned = browser.run("[...document.querySelectorAll('.warning')].map(p => p.textContent)")
    assert warned == [one["text"] for one in report["warnings"]]
    return [path for _, path, _, _ in found]


@pytest.mark.slow
@needs_browser
def test_every_number_of_the_page_is_that_of_the_api(tmp_path, clock):
    names = ("begun", "pending", "overdue", "late")
    with Listening(config(tmp_path, learners=[MAIL])) as client, Browser(tmp_path) as browser:
        mailed(client, clock)
        told = learned(client, "mail")
        browser.look()
        browser.open(f"{client.url}/#mail", SHOWN)
        paths = check_numbers(browser, told, 120)
        for k in range(3):
            for name in ("mean", "low", "high", "leads", "probability", "share", "plays"):
                assert f"actions.{k}.{name}" in paths
        assert {*names, "holdout.mean", "days.0.holdout.mean", "delays.quantiles.2.days"} <= {
            *paths
        }
        assert browser.run(TILES) == [["decisions", "begun"], *([name, name] for name in names[1:])]
        assert dict(browser.run(COLUMNS)) == {
            "action": "",
            "reward per decision": "mean",
            "": "",
            "is the best": "leads",
            "probability now": "probability",
            "share, newest 7 days": "recent_share",
            "share of all": "share",
            "decisions": "plays",
            "reported": "reports",
        }
        assert told["report"]["overdue"] == told["status"]["overdue"] > 0
        listed = client.get("/v1/learners/mail/episodes?limit=1000").json()["episodes"]
        assert told["report"]["overdue"] == sum(one["overdue"] for one in listed)
        assert (
            browser.run("document.querySelector('.verdict').textContent")
            == (told["report"]["verdict"])
        )
        shown = browser.run("[...document.querySelectorAll('td.name')].map(td => td.textContent)")
        assert HOSTILE in shown
        assert browser.run("document.querySelectorAll('img').length") == 0
        assert browser.run("document.title") == "belated"
        assert browser.run("document.querySelectorAll('canvas').length") == 2
        backs = []
        for dark in (False, True):  # a phone
            browser.look(390, 844, dark=dark)
            browser.open(f"{client.url}/#mail", SHOWN)
            assert browser.run("document.documentElement.scrollWidth") == 390
            backs.append(browser.run("getComputedStyle(document.body).backgroundColor"))
            browser.picture(tmp_path / "phone.png")
        assert backs[0] != backs[1]
        assert browser.complaints == []


@pytest.mark.slow
@needs_browser
def test_nothing_is_drawn_before_something_has_reported(tmp_path, clock):
    """One decision without an outcome has no baseline, no axis and no day of 0."""
    with Listening(config(tmp_path, learners=[MAIL])) as client, Browser(tmp_path) as browser:
        client.post("/v1/learners/mail/decide", json={"features": {"age": 30}})
        told = learned(client, "mail")
        browser.open(f"{client.url}/#mail", SHOWN)
        paths = check_numbers(browser, told, 10)
        assert "holdout.mean" not in paths
        assert (
            browser.run("document.querySelectorAll('canvas, .tick, .base:not(.key)').length") == 0
        )
        client.post("/v1/learners/mail/feedback", json={"episode": 0, "reward": 12.5})
        told = learned(client, "mail")
        browser.open(f"{client.url}/#mail", f"{SHOWN} && document.querySelector('canvas') !== null")
        assert "holdout.mean" in check_numbers(browser, told, 20)
        assert browser.complaints == []


@pytest.mark.long
@needs_browser
def test_learners_with_tables_have_a_page(tmp_path, clock):
    robot = {**ROBOT, "deadline_episodes": 10, "grace": 5}
    table = config(tmp_path, learners=[SHOP, robot])
    with Listening(table) as client, Browser(tmp_path) as browser:
        for k in range(30):
            clock[0] += 3600.0
            client.post("/v1/learners/shop/decide", json={"key": f"k{k}"})
            client.post("/v1/learners/shop/feedback", json={"key": f"k{k}", "costs": [0.5]})
            client.post("/v1/learners/robot/episodes", json={})
            for step in range(2):
                asked = {"episode": k, "step": step, "state": 0}
                client.post("/v1/learners/robot/decide", json=asked)
            if k % 3:
                for record in ({"end": 1}, {"costs": [0.5, 0.25]}):
                    client.post("/v1/learners/robot/feedback", json={"episode": k, **record})
        clock[0] += 3 * DAY
        for name, canvases in (("shop", 1), ("robot", 2)):
            told = learned(client, name)
            browser.look(390, 844)
            browser.open(f"{client.url}/#{name}", SHOWN)
            assert browser.run(f"document.getElementById('learner-{name}') !== null")
            check_numbers(browser, told, 20)
            assert browser.run("document.querySelectorAll('canvas').length") >= canvases
            assert browser.run("document.documentElement.scrollWidth") == 390
            kinds = [one["kind"] for one in told["report"]["warnings"]]
            assert "silent" in kinds
        assert told["report"]["overdue"] > 0
        paths = client.get("/openapi.json").json()["paths"]
        browser.open(f"{client.url}/docs", "document.querySelector('details') !== null")
        assert browser.run("document.querySelectorAll('details').length") == sum(
            map(len, paths.values())
        )
        described = browser.run("document.body.textContent")
        for text in (*paths, "probability", "429 Too Many Requests", '{"episode":0,"end":0}'):
            assert text in described, text
        assert browser.complaints == []


@pytest.mark.long
@needs_browser
def test_the_page_asks_for_a_token(tmp_path):
    token, hashed = new_token()
    tokens = [{"name": "boss", "sha256": hashed, "learners": ["shop"], "verbs": ["read"]}]
    with Listening(config(tmp_path, tokens=tokens)) as client, Browser(tmp_path) as browser:
        browser.open(client.url, "!document.getElementById('ask').hidden")
        assert browser.run("document.querySelectorAll('section').length") == 0
        browser.run(f"document.getElementById('token').value = '{token}'")
        browser.run("document.querySelector('#ask button').click()")
        browser.run(f"new Promise(done => setInterval(() => {SHOWN} && done(1), 20))")
        assert browser.run("document.querySelector('section').id") == "learner-shop"
        names = browser.run("[...document.querySelectorAll('nav a')].map(a => a.textContent)")
        assert names == ["shop"]


def test_costs_of_full_information_are_learned_though_no_outcome_is_known(tmp_path):
    with InProcess(config(tmp_path, learners=[FULL])) as client:
        base = "/v1/learners/full"
        client.post(f"{base}/episodes", json={})
        told = client.post(f"{base}/feedback", json={"episode": 0, "costs": [[[0.1, 0.2]]]})
        assert told.json()["outcome"] == "taken"
        assert client.get(f"{base}/report").json()["warnings"] == []
