"""Measure everything: processor time on one thread, as ratios to dense NumPy in the same run.

python benchmarks/run.py                    all sections, tables to benchmarks/RESULTS.md as well
python benchmarks/run.py passes             some sections
python benchmarks/run.py --save FILE.json   the numbers to a file as well
python benchmarks/run.py --compare FILE.json   row by row, as ratios to the numbers of a file

On a shared machine ratios between 0.8 and 1.25 say nothing; measure both sides more than once.
"""

import os

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[name] = "1"

import argparse
import platform
import resource
import subprocess
import sys
import time
from pathlib import Path

import earlier
import numpy as np
from dense import DensePasses

import belated as bl
from belated.core import saving
from belated.core.arrays import frozen
from belated.tabular.counts import with_slots
from belated.tabular.kernels import counting
from belated.tabular.kernels.weights import softmax
from belated.tabular.parts.transitions import Model

RESULTS = Path(__file__).parent / "RESULTS.md"
LINES: list[str] = []
CELLS: dict[str, dict] = {}  # every measured number by name, for --save and --compare


def say(line=""):
    print(line, flush=True)
    LINES.append(line)


def table(header, rows):
    section = next(line for line in reversed(LINES) if line.startswith("## "))[3:].strip()
    CELLS.update(earlier.measured(section, header, rows))
    say("| " + " | ".join(header) + " |")
    say("|" + "---|" * len(header))
    for row in rows:
        say("| " + " | ".join(str(cell) for cell in row) + " |")
    say()


def seconds(call, budget=0.5, least=3):
    """Least processor time of a call, after one that is not counted."""
    call()
    times, begun = [], time.process_time()
    while len(times) < least or (time.process_time() - begun < budget and len(times) < 200):
        start = time.process_time()
        call()
        times.append(time.process_time() - start)
    return float(min(times))


show = earlier.duration


class Bench:
    """A grid with a model in which every row was visited about 30 times, and dense copies."""

    def __init__(self, size, horizon=50, radius_scale=0.01, dense=True):
        self.world = bl.environments.gridworld(size, horizon=horizon)
        problem = self.world.problem
        H, S, A = problem.shape
        rng = np.random.default_rng(0)
        self.policy = frozen(rng.dirichlet(np.ones(A), (H, S)))
        self.costs = self.world.costs.at(0)
        self.total = np.zeros((H, S, A))
        self.known = Model(problem, self.world.mdp.transitions)
        self.bonus = bl.parts.Bonus().start(problem, bl.parts.Revealed())
        self.confident = bl.parts.Confidence(radius_scale, episodes=500).start(
            problem, bl.parts.Weighted()
        )
        self.learn(rng, 30)
        if dense:
            self.dense = self.dense_copy()

    def learn(self, rng, visits):
        """Trajectories stitched from independent transitions, so that every row is seen."""
        problem, t = self.world.problem, self.world.mdp.transitions
        _, S, A = problem.shape
        s, a = (x.ravel() for x in np.meshgrid(np.arange(S), np.arange(A), indexing="ij"))
        everything, slots = s * A + a, t.successors.shape[-1]
        both = self.bonus.counts, self.confident.counts
        for counts in both:
            counts.successors = with_slots(counts.successors, slots)
            counts.counts = with_slots(counts.counts, slots)
        edges = np.cumsum(t.probabilities[0].reshape(-1, slots), 1)
        for _ in range(visits):
            w = (rng.random(S * A)[:, None] > edges).sum(1)
            following = t.successors[0].reshape(-1, slots)[np.arange(S * A), w].astype(np.int64)
            for counts in both:
                counting.count(counts.tally, everything, following, 0, 1)
        self.confident.set.refresh(everything)
        bonus, tally = self.bonus, self.bonus.counts.tally
        bonus.probabilities = with_slots(bonus.probabilities, slots)
        counting.frequencies(tally, everything, 1.0, bonus.probabilities, bonus.deviation)

    def dense_copy(self):
        """The same model as dense arrays."""
        box = self.confident.set
        _, S, A = self.world.problem.shape
        lower = np.zeros((S, A, S))
        upper = np.broadcast_to(box.unseen[0][:, :, None], (S, A, S)).copy()
        for s, a in np.ndindex(S, A):
            n = box.counts.known[0, s, a]
            states = box.counts.successors[0, s, a, :n]
            lower[s, a, states] = box.lower[0, s, a, :n]
            upper[s, a, states] = box.lower[0, s, a, :n] + box.width[0, s, a, :n]
        p = self.world.mdp.transitions.dense()[0]  # known and bonus passes differ in the bonus only
        visits = box.counts.visits[0]
        return DensePasses(p, lower, np.minimum(upper, 1), visits, self.costs[0], self.policy)


def passes():
    say("## One backward pass against dense NumPy (grid, H = 50)\n")
    say("Every row of the model was visited 30 times; confidence radius scaled by 0.01.\n")
    rows = []
    for size in (10, 20, 40):
        b = Bench(size, dense=size < 40)
        H, S, A = b.world.problem.shape
        new, rate = np.empty((H, S, A)), frozen(np.array([0.1]))
        ours = {
            "known": seconds(lambda b=b: b.known.add_q(b.costs, b.policy, b.total)),
            "bonus": seconds(lambda b=b: b.bonus.add_q(b.costs, b.policy, b.total)),
            "confidence": seconds(lambda b=b: b.confident.add_q(b.costs, b.policy, b.total)),
            "softmax": seconds(lambda b=b, new=new, rate=rate: softmax(b.total, rate, new)),
        }
        if size == 40:
            b.dense = b.dense_copy()
        d = b.dense
        once = {"budget": 0.0, "least": 1} if size == 40 else {}
        theirs = {
            "known": seconds(d.known, **once),
            "bonus": seconds(d.bonus_pass, **once),
            "confidence": once_only(d.confidence) if size == 40 else seconds(d.confidence, least=2),
            "softmax": seconds(d.softmax),
        }
        for name, mine in ours.items():
            other = theirs[name]
            grid = f"{size} x {size}"
            rows.append((grid, name, show(mine), show(other), f"{other / mine:.0f}"))
        whole, dense_whole = ours["known"] + ours["softmax"], theirs["known"] + theirs["softmax"]
        rows.append(
            (f"{size} x {size}", "known + softmax = one feedback", show(whole), show(dense_whole),
             f"{dense_whole / whole:.1f}")
        )  # fmt: skip
        del b, d
    table(("grid", "pass", "belated", "dense NumPy", "times faster"), rows)


def once_only(call):
    start = time.process_time()
    call()
    return time.process_time() - start


def growth():
    say("## Growth of one pass\n")
    rows = []
    for label, size, horizon in (
        ("S = 100, H = 25", 10, 25), ("S = 100, H = 50", 10, 50), ("S = 100, H = 100", 10, 100),
        ("S = 400, H = 50", 20, 50), ("S = 1600, H = 50", 40, 50), ("S = 6400, H = 50", 80, 50),
    ):  # fmt: skip
        b = Bench(size, horizon, dense=False)
        rows.append(
            (label, show(seconds(lambda b=b: b.known.add_q(b.costs, b.policy, b.total))),
             show(seconds(lambda b=b: b.bonus.add_q(b.costs, b.policy, b.total))),
             show(seconds(lambda b=b: b.confident.add_q(b.costs, b.policy, b.total))))
        )  # fmt: skip
    table(("grid, A = 4", "known", "bonus", "confidence"), rows)
    rows = []
    for actions in (2, 4, 8, 16):
        world = bl.environments.random_mdp(100, actions, 50, successors=4)
        known = Model(world.problem, world.mdp.transitions)
        policy = frozen(np.full(world.problem.shape, 1 / actions))
        total, costs = np.zeros(world.problem.shape), world.costs.at(0)
        rows.append((actions, show(seconds(lambda: known.add_q(costs, policy, total)))))  # noqa: B023
    table(("actions (S = 100, H = 50)", "known"), rows)
    rows, world = [], bl.environments.paper_grid()
    simulated(world, oppo(world, "bonus"), 5, 20)  # loads or compiles the kernels
    for delay in (0, 10, 100, 400):
        rows.append((delay, show(simulated(world, oppo(world, "bonus"), delay, 500))))
    table(("fixed delay (paper's grid, bonus)", "per episode, simulation included"), rows)


def oppo(world, name):
    """Delayed OPPO with a constant step size and transitions that are known or have a bonus."""
    transitions = world.mdp.transitions if name == "known" else bl.parts.Bonus()
    return bl.DelayedOPPO(world.problem, transitions=transitions, update=bl.parts.Softmax(0.1))


def simulated(world, agent, delay, episodes):
    """Processor time per episode of a simulation at a fixed delay."""
    start = time.process_time()
    bl.simulate(world, agent, delays=bl.delays.fixed(delay), episodes=episodes)
    return (time.process_time() - start) / episodes


def bandit():
    say("## Bandit feedback with unknown dynamics (10 x 10 grid, H = 50)\n")
    b = Bench(10, dense=False)
    rng = np.random.default_rng(1)
    path = b.world.mdp.play(b.policy, rng)
    full = seconds(lambda: b.confident.add_q(b.costs, b.policy, b.total))
    new, rate = np.empty(b.total.shape), frozen(np.array([0.1]))
    full += seconds(lambda: softmax(b.total, rate, new))
    before = b.confident.arrived
    for k in range(10):
        b.confident.learn([b.world.mdp.play(b.policy, rng, k)], k)

    def feedback():
        then = b.confident.as_of(before)
        then.reach(b.policy, path.states)
        then.add_q(b.costs, b.policy, b.total)

    one = seconds(feedback) + seconds(lambda: softmax(b.total, rate, new))
    table(
        ("full-information feedback", "bandit feedback", "ratio"),
        [(show(full), show(one), f"{one / full:.0f}")],
    )


def practice():
    say("## One feedback of whole agents (10 x 10 grid, H = 50, unknown dynamics)\n")
    say("Beginning an episode and observing one: counting, evaluation and a new policy.\n")
    world = bl.environments.gridworld(10, horizon=50)
    rules = {
        "softmax, constant": bl.parts.Softmax(0.1),
        "softmax, anytime": bl.parts.Softmax(),
        "regret matching+": bl.parts.RegretMatching(),
    }
    agents = {
        f"{name}, full information": bl.DelayedOPPO(
            world.problem, transitions=bl.parts.Bonus(), update=update
        )
        for name, update in rules.items()
    }
    agents["recommended, full information"] = bl.recommend(world.problem, information="full")
    agents["recommended, bandit feedback"] = bl.recommend(world.problem, information="bandit")
    found = {name: one_feedback(world, agent) for name, agent in agents.items()}
    base = found["softmax, constant, full information"]
    table(
        ("agent", "one feedback", "in feedbacks of softmax"),
        [(name, show(taken), f"{taken / base:.1f}") for name, taken in found.items()],
    )


def one_feedback(world, agent, episodes=150, skipped=30):
    """Least processor time of beginning an episode plus that of observing one."""
    rng, begins, observes = np.random.default_rng(0), [], []
    for k in range(episodes):
        start = time.process_time()
        policy = agent.begin_episode().policy
        begins.append(time.process_time() - start)
        path, cost = world.mdp.play(policy, rng, k), world.costs.at(k)
        values = cost if agent.information == "full" else bl.tabular.records.suffered(cost, path)
        records = [path, bl.Costs(k, values)]
        start = time.process_time()
        agent.observe(records)
        observes.append(time.process_time() - start)
    return min(begins[skipped:]) + min(observes[skipped:])


def experiment():
    say("## The paper's experiment: 500 episodes, one agent, exact values included\n")
    b = Bench(10)
    world = b.world

    def run():
        agent = bl.DelayedOPPO(
            world.problem, transitions=bl.parts.Bonus(), update=bl.parts.Softmax(0.1)
        )
        bl.simulate(world, agent, delays=bl.delays.geometric(10), episodes=500)

    whole, dense = seconds(run, least=3), seconds(b.dense.bonus_pass)
    table(
        ("whole run", "one dense bonus pass", "ratio"),
        [(show(whole), show(dense), f"{whole / dense:.0f}")],
    )


def large():
    say("## Large: a 100 x 100 grid, H = 200\n")
    small, world = (bl.environments.gridworld(size, horizon=200) for size in (5, 100))
    rows = []
    for name in ("known", "bonus"):
        simulated(small, oppo(small, name), 5, 12)  # loads or compiles the kernels
        agent = oppo(world, name)
        before = resident()
        taken = simulated(world, agent, 5, 12)
        policies = 8 * np.prod(world.problem.shape) / 2**20
        rows.append(
            (name, earlier.whole_seconds(taken), f"{policies:.0f} MB",
             earlier.memory(resident() - before))
        )  # fmt: skip
        del agent
    table(("12 episodes, delay 5", "per episode", "one policy", "more memory than before"), rows)


def resident():
    """Resident memory now, in MB."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 2**20


def million():
    say("## A million episodes of a bandit, 1 % of the feedback lost, forgotten after 1000\n")
    problem = bl.Problem(1, 5, 1)
    transitions = bl.Transitions.from_dense(np.ones((1, 5, 1)))

    def run(episodes, shown):
        agent = bl.DelayedOPPO(problem, transitions=transitions, costs=bl.parts.Weighted())
        rng = np.random.default_rng(0)
        line, rows, start = bl.DelayLine(), [], time.process_time()
        for k in range(episodes):
            policy = agent.begin_episode().policy[0, 0]
            arm = int(np.searchsorted(np.cumsum(policy), rng.random()).clip(0, 4))
            cost = float(rng.random() < 0.2 * arm)
            records = [bl.Trajectory(k, [0, 0], [arm]), bl.Costs(k, [cost])]
            line.push(records, bl.NEVER if rng.random() < 0.01 else 10)
            agent.observe(line.release(k))
            if k >= 1000:
                agent.forget(k - 1000)
            if k + 1 in shown:
                sane = bool(np.isfinite(policy).all() and abs(policy.sum() - 1) < 1e-12)
                rows.append(
                    (f"{k + 1:,}", earlier.memory(resident()), agent.diagnostics()["open"],
                     show((time.process_time() - start) / (k + 1)), sane)
                )  # fmt: skip
        return rows

    run(1100, ())  # loads or compiles the kernels
    rows = run(1_000_000, (10_000, 100_000, 500_000, 1_000_000))
    table(("episodes", "resident", "open episodes", "per episode", "policy sane"), rows)


def verdicts():
    say("## A verdict every night, over a million decisions in nights of 10,000\n")
    say("Three lines report one to three nights later; a look takes what came since the last.\n")
    n, night, rows = 1_000_000, 10_000, []
    for d in (0, 10):
        rng, due, looks = np.random.default_rng(0), {}, []
        agent = bl.recommend(bl.Choice(3, d) if d else bl.Choice(3), floor=0.3, changes=False)
        before = resident()
        for day in range(n // night):
            x = rng.standard_normal((night, d)) if d else [None] * night
            last, hits = rng.integers(1, 4, night), rng.random(night) < 0.05
            for k in range(night):
                made = agent.decide(x[k], now=float(day))
                if hits[k]:
                    late = due.setdefault(day + int(last[k]), [])
                    late.append(bl.Reward(made.number, 1.0))
            agent.observe(due.pop(day, []), now=float(day))
            start = time.process_time()
            agent.verdict(3.0, (0.0, 1.0))
            looks.append(time.process_time() - start)
        halves = show(np.mean(looks[5:50])), show(np.mean(looks[50:]))
        grown = earlier.memory(resident() - before)
        whole = saving.from_bytes(saving.to_bytes(agent), "")
        rows.append((d, *halves, show(once_only(lambda a=whole: a.table())), grown))
    table(
        ("features", "a look, nights 5 to 50", "nights 50 to 100", "a first look", "memory"), rows
    )


def skipping():
    say("## 200,000 episodes with 5 % lost feedback inside `Skipping(agent, 50)`\n")
    problem = bl.Problem(1, 20, 1)
    transitions = bl.Transitions.from_dense(np.ones((1, 20, 1)))
    agent = bl.wrappers.Skipping(bl.DelayedOPPO(problem, transitions=transitions), 50)
    rng = np.random.default_rng(0)
    line, rows = bl.DelayLine(), []
    for k in range(200_000):
        agent.begin_episode()
        line.push([bl.Costs(k, rng.random((1, 1, 20)))], bl.NEVER if rng.random() < 0.05 else 10)
        agent.observe(line.release(k))
        if k + 1 in (20_000, 100_000, 200_000):
            rows.append((f"{k + 1:,}", earlier.memory(resident()), agent.diagnostics()["open"]))
    table(("episodes", "resident", "open episodes"), rows)


def wrappers():
    say("## What a wrapper adds (paper's grid, known transitions, per episode)\n")
    say("A fixed delay of 10, so that all of them get one feedback per episode; least of nine.\n")
    world = bl.environments.paper_grid()

    def make():
        return bl.DelayedOPPO(
            world.problem, transitions=world.mdp.transitions, update=bl.parts.Softmax(0.1)
        )

    agents = {
        "none": make,
        "Skipping": lambda: bl.wrappers.Skipping(make(), 10),
        "Doubling": lambda: bl.wrappers.Doubling(make()),
        "Pipeline": lambda: bl.wrappers.Pipeline(make(), 10),
        "Parallel": lambda: bl.wrappers.Parallel(make, 10),
        "Bold": lambda: bl.wrappers.Bold(make),
    }
    drawn = np.full(300, 10)
    times = {name: [] for name in agents}
    for _ in range(9):  # in turn, so that a slow moment meets all of them
        for name, agent in agents.items():
            times[name].append(once_only(lambda a=agent: drive(world, a(), drawn)) / 300)
    plain = min(times["none"])
    rows = [
        (name, show(min(spent)), f"{100 * (min(spent) / plain - 1):+.0f} %")
        for name, spent in times.items()
    ]
    table(("wrapper", "per episode", "more"), rows)


def drive(world, agent, delays):
    """Begin and observe, nothing else."""
    line, cost = bl.DelayLine(), world.costs.at(0)
    for k in range(len(delays)):
        agent.begin_episode()
        line.push([bl.Costs(k, cost)], int(delays[k]))
        agent.observe(line.release(k))


def starting():
    say("## Starting\n")
    codes = ("import belated", "import belated; belated.DelayedOPPO", "pass")
    names = ("`import belated`", "and the first name asked for", "an empty process")
    times = [float(np.median([child(code) for _ in range(7)])) for code in codes]
    table(names, [tuple(map(earlier.whole_seconds, times))])


def child(code):
    """Processor time of a new process."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-c", code], check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


SECTIONS = {
    f.__name__: f
    for f in (
        passes,
        growth,
        bandit,
        practice,
        experiment,
        wrappers,
        large,
        million,
        verdicts,
        skipping,
        starting,
    )
}


def main():
    parser = argparse.ArgumentParser(description="Measure belated on this machine.")
    parser.add_argument("sections", nargs="*", metavar="section", help=", ".join(SECTIONS))
    parser.add_argument("--save", type=Path, metavar="FILE", help="write the numbers to a file")
    parser.add_argument("--compare", type=Path, metavar="FILE", help="a file that --save wrote")
    chosen = parser.parse_args()
    if unknown := [name for name in chosen.sections if name not in SECTIONS]:
        parser.error(f"sections must be among {', '.join(SECTIONS)}, got {', '.join(unknown)}")
    try:
        before = earlier.load(chosen.compare) if chosen.compare else None
    except ValueError as error:
        parser.error(str(error))
    versions = {
        "Python": platform.python_version(), "NumPy": np.__version__, "belated": bl.__version__
    }  # fmt: skip
    named = ", ".join(f"{name} {version}" for name, version in versions.items())
    say("# Passes, growth, memory\n")
    say(
        f"Least processor time of many calls, on one thread; {named}. "
        "Written by `make bench`. Compilation is not counted.\n"
    )
    for name in chosen.sections or SECTIONS:
        SECTIONS[name]()
    if not chosen.sections:
        RESULTS.write_text("\n".join(LINES))
    if chosen.save:
        earlier.save(chosen.save, versions, CELLS)
    if before:
        named = ", ".join(f"{name} {version}" for name, version in before[0].items())
        print(f"# Compared with {chosen.compare} ({named})\n")
        print("\n".join(earlier.compare(before[1], CELLS)))


if __name__ == "__main__":
    main()
