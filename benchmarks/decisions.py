"""How fast the learner of decisions is and how it grows, against Vowpal Wabbit in the same run.

    python benchmarks/decisions.py                 tables, to benchmarks/DECISIONS.md as well
    python benchmarks/decisions.py scores 300 302  scores of these seeds in all worlds
    python benchmarks/decisions.py scores 300 302 rare mailer:clock  and in some
    python benchmarks/decisions.py changes 0 199   changes found where there is none, and one

Ten actions, one model per action, a fifth of the decisions report after 100 decisions on average.
`decide` and `observe` are timed together with all their checks; of Vowpal Wabbit (extra `vw`,
`--cb_explore_adf --squarecb`, features crossed with the action) the parsing of both texts, predict
and learn, and the release of both examples are timed. Processor time on one thread.
"""

import os

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[name] = "1"

import resource
import statistics
import subprocess
import sys
import time
from importlib import import_module
from pathlib import Path

import decision_worlds as worlds
import numpy as np

import belated as bl
from belated.core.arrays import Floats

INTRODUCTION = (
    "Written by `python benchmarks/decisions.py`. Microseconds of processor time per decision, one "
    "thread: `decide` and `observe` with their checks, and Vowpal Wabbit (squarecb, ten actions). "
    "Its `predict` and `learn` of a text, as most programs call them, parse the text and release "
    "the example; the three are timed one by one. Medians of five runs, both learners in turn, and "
    "of the five ratios. Absolute numbers depend on the machine and on what else it does; compare "
    "within a row."
)
PAGE = Path(__file__).with_name("DECISIONS.md")
RUNS = 5
KEPT = "## Scores"
"""The page stays as it is from here on."""


def learner_time(
    d: int, actions: int = 10, decisions: int = 4000, warm: int = 300, **settings: object
) -> float:
    """Microseconds of `decide` and `observe` per decision."""
    rng = np.random.default_rng(0)
    agent = bl.LinearSampler(bl.Choice(actions, d), **settings)  # type: ignore[arg-type]
    x = rng.normal(size=(decisions, d))
    came = rng.random(decisions) < 0.2
    delays = rng.geometric(0.01, decisions)
    due: dict[int, list[bl.Reward]] = {}
    for k in np.flatnonzero(came):
        due.setdefault(int(k + delays[k]), []).append(bl.Reward(int(k), 1.0))
    begin = 0.0
    for k in range(decisions):
        if k == warm:
            begin = time.process_time()
        agent.decide(x[k])
        agent.observe(due.get(k, []))
    return (time.process_time() - begin) / (decisions - warm) * 1e6


def vw_time(d: int, actions: int = 10, decisions: int = 300, warm: int = 50) -> Floats:
    """Microseconds per decision: parsing of the texts, predict and learn, release of examples."""
    vowpal = import_module("vowpalwabbit")
    vw = vowpal.Workspace("--cb_explore_adf --squarecb -q SA --quiet")
    label = vowpal.LabelType.CONTEXTUAL_BANDIT
    rng = np.random.default_rng(0)
    times: list[Floats] = []
    for _ in range(decisions):
        row = " ".join(f"f{i}:{value:.6f}" for i, value in enumerate(rng.normal(size=d)))
        lines = [f"shared |S {row}", *(f"|A a{a}" for a in range(actions))]
        learned = f"0:{-1.0 * (rng.random() < 0.2)}:0.1 {lines[1]}"
        for use, text in (
            (vw.predict, lines),
            (vw.learn, [lines[0], learned, *lines[2:]]),
        ):
            clock = [time.process_time()]
            example = vw.parse(text, label)
            clock.append(time.process_time())
            use(example)
            clock.append(time.process_time())
            vw.finish_example(example)
            clock.append(time.process_time())
            times.append(np.diff(clock))
    vw.finish()
    return 2e6 * np.mean(times[2 * warm :], axis=0)


def resident() -> float:
    """MB of memory that the process has now (Linux)."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 1e6


def pending(count: int, d: int = 10) -> tuple[float, float, float, float]:
    """Microseconds per decision, the longest call in milliseconds, MB of the log and of growth.

    Time per decision includes the fits: it is that of the second half of `count` decisions.
    """
    rng = np.random.default_rng(0)
    agent = bl.LinearSampler(bl.Choice(10, d))
    x = rng.normal(size=(1024, d))
    for k in range(300):
        agent.decide(x[k])
        agent.observe([bl.Reward(k - 150, 1.0)] if k > 150 and k % 20 == 0 else [])
    before = resident()
    # Reports with delays as long as the whole run keep all decisions young.
    spent, longest = 0.0, 0.0
    for k in range(300, count):
        begin = time.process_time()
        agent.decide(x[k % 1024])
        agent.observe([bl.Reward(k - int(0.9 * k), 1.0)] if k % 1000 == 0 else [])
        call = time.process_time() - begin
        if 2 * k >= count:
            spent, longest = spent + call, max(longest, call)
    per = spent / (count - max(count // 2, 300)) * 1e6
    return per, 1e3 * longest, agent.diagnostics()["log_bytes"] / 1e6, resident() - before


def score(make: worlds.Make, seed: int, decisions: int = 4000, **settings: object) -> float:
    """The score of the learner in one world: 0 is the best policy, 1 uniform play."""
    world = make(np.random.default_rng([seed, worlds.ALL.index(make)]), decisions)
    shared, d = world.features.ndim == 3, world.features.shape[-1]
    choice = bl.Choice(None if shared else world.actions, d)
    agent = bl.LinearSampler(choice, silence=world.silence, seed=seed, **settings)  # type: ignore[arg-type]
    due: dict[int, list[bl.Reward]] = {}
    values = np.empty(decisions)
    for k in range(decisions):
        decision = agent.decide(world.features[k] if d else None)
        values[k] = decision.probabilities @ world.means[k]
        a = decision.action
        if np.isfinite(world.delays[k, a]):
            when = k + int(world.delays[k, a])
            due.setdefault(when, []).append(bl.Reward(k, float(world.outcomes[k, a])))
        agent.observe(due.pop(k, []))
    return world.score(values)


def mailer(seed: int, how: str, days: int = 40, mails: int = 300) -> float:
    """The score of four subject lines for two kinds of customers, observed every night.

    how: "clock" hands in the day; "nightly" and "each" count decisions, the latter with an
    `observe` after every mail.
    """
    rng = np.random.default_rng(seed)
    rates = np.array([[0.10, 0.04, 0.06, 0.05], [0.04, 0.05, 0.06, 0.10]])
    agent = bl.recommend(bl.Choice(4, 1), silence=0.0)
    due: dict[int, list[bl.Reward]] = {}
    got = best = uniform = 0.0
    for day in range(days):
        now = float(day) if how == "clock" else None
        for _ in range(mails):
            kind, u, later = int(rng.integers(0, 2)), rng.random(), int(rng.integers(1, 4))
            decision = agent.decide([float(kind)], now=now)
            got += float(decision.probabilities @ rates[kind])
            best += rates[kind].max()
            uniform += rates[kind].mean()
            if u < rates[kind, decision.action]:
                due.setdefault(day + later, []).append(bl.Reward(decision.number, 1.0))
            if how == "each":
                agent.observe([])
        agent.observe(due.pop(day, []), now=now)
    return float((best - got) / (best - uniform))


MAILERS = ("clock", "nightly", "each")


def scores(first: int, last: int, names: list[str], **settings: object) -> None:
    """Print the scores of seeds first to last, by default of all worlds and the mailer."""
    known = {make.__name__: make for make in worlds.ALL}
    means: dict[str, float] = {}
    for name in names or [*known, *(f"mailer:{how}" for how in MAILERS)]:
        kind, _, how = name.partition(":")
        found = [
            mailer(seed, how) if kind == "mailer" else score(known[kind], seed, **settings)
            for seed in range(first, last + 1)
        ]
        means[name] = float(np.mean(found))
        print(name, f"{means[name]:.3f}", " ".join(f"{v:.3f}" for v in found), flush=True)
    nine = [means[make.__name__] for make in worlds.NINE if make.__name__ in means]
    if len(nine) == len(worlds.NINE):
        print(f"nine: mean {np.mean(nine):.3f}, worst {max(nine):.3f}", flush=True)


def found_changes(seed: int, change: str, decisions: int = 20_000) -> list[tuple[int, int]]:
    """The changes that the learner finds: when, to 100 decisions, and where it begins anew."""
    world = bl.environments.conversions(4, 5, rate=0.2, change=change, seed=seed)
    visits = world.visits(decisions, np.random.default_rng([seed, 0]))
    delays = np.random.default_rng([seed, 1]).geometric(1.0 / 60.0, decisions)
    agent = bl.recommend(world.problem, silence=0.0, seed=seed)
    due: dict[int, list[bl.Reward]] = {}
    found: list[tuple[int, int]] = []
    for k in range(decisions):
        decision = agent.decide(visits.at(k))
        outcome = float(visits.outcomes[k, decision.action])
        if outcome > 0.0:
            due.setdefault(k + int(delays[k]), []).append(bl.Reward(decision, outcome))
        agent.observe(due.pop(k, []))
        if k % 100 == 99:
            start = int(agent.diagnostics()["changed_at"])
            if start >= 0 and (not found or found[-1][1] != start):
                found.append((k + 1, start))
    return found


def changes(first: int, last: int) -> None:
    """Print how often a change is found where nothing changes, and how soon a switch is."""
    middle, seeds = 10_000, range(first, last + 1)
    false = [len(found_changes(seed, "none")) for seed in seeds]
    print(f"nothing changes: {sum(n > 0 for n in false)} of {len(seeds)} runs", sum(false))
    late, early = [], 0
    for seed in seeds:
        found = found_changes(seed, "switch")
        early += any(when <= middle for when, _ in found)
        late += [when - middle for when, _ in found if when > middle][:1]
    print(f"a switch: found in {len(late)}, before it {early}", np.percentile(late, (10, 50, 90)))


def table(head: str, rows: list[list[str]]) -> str:
    names = [name.strip() for name in head.split("|")]
    lines = [names, ["---"] * len(names), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def main() -> None:
    learner_time(3, decisions=400)  # compilation
    speed = []
    for d in (10, 100, 1000):
        pairs = []
        for _ in range(RUNS):
            own = learner_time(d, decisions=1500 if d == 1000 else 4000)
            pairs.append((own, *vw_time(d, decisions=100 if d == 1000 else 300)))
        medians = [statistics.median(times) for times in zip(*pairs, strict=True)]
        ratios = [
            statistics.median(own / sum(parts[first:last]) for own, *parts in pairs)
            for first, last in ((0, 3), (1, 3), (1, 2))
        ]
        speed.append([str(d), *(f"{t:.0f}" for t in medians), *(f"{r:.2f}" for r in ratios)])
    actions = [
        [str(a), f"{statistics.median(learner_time(10, a, 1200) for _ in range(RUNS)):.0f}"]
        for a in (2, 5, 10, 20, 50)
    ]
    waiting = []
    for count in (1_000, 10_000, 100_000, 1_000_000):
        run = subprocess.run(
            [sys.executable, __file__, str(count)], check=True, capture_output=True, text=True
        )
        spent, longest, log, grown = map(float, run.stdout.split())
        numbers = [f"{spent:.0f}", f"{longest:.0f}", f"{log:.1f}", f"{grown:.0f}"]
        waiting.append([f"{count:,}", *numbers])
    page = "\n\n".join(
        [
            "# Speed and growth of the learner of decisions",
            INTRODUCTION,
            "## Features, ten actions",
            table(
                "features | belated | Vowpal Wabbit: parsing | predict and learn | release"
                " | ratio to all of it | without parsing | predict and learn alone",
                speed,
            ),
            "## Actions, ten features",
            table("actions | belated", actions),
            "## Pending decisions, ten actions and ten features",
            table(
                "pending | microseconds | longest call, milliseconds | MB of the log"
                " | MB that the process grew",
                waiting,
            ),
        ]
    )
    before = PAGE.read_text() if PAGE.exists() else ""
    kept = before[before.find(KEPT) :] if KEPT in before else ""
    PAGE.write_text(page + "\n" + ("\n" + kept if kept else ""))
    print(page)


if __name__ == "__main__":
    if len(sys.argv) > 2 and sys.argv[1] == "scores":
        scores(int(sys.argv[2]), int(sys.argv[3]), sys.argv[4:])
    elif len(sys.argv) > 2 and sys.argv[1] == "changes":
        changes(int(sys.argv[2]), int(sys.argv[3]))
    elif len(sys.argv) > 1:
        print(*pending(int(sys.argv[1])))
    else:
        main()
