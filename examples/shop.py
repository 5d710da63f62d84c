"""Visits to a shop: what to show next, when the sale is known hours later, if at all.

The states are which of photos, reviews and price a visitor has seen (8), or that the visitor has
gone. The actions are what to show on the next of four pages. Showing the price first drives people
away; visitors who have seen all three buy most. A visit costs 1 if nothing is bought. The path of a
visit is known at once. Whether it ended in a sale is reported hours later, while thirty visitors
come per hour, and for one visit in six never (blocked tracking).

The figure compares the recommended agent, told at once and told late, with an agent whose constants
were set by hand for this shop, and with the paper's agent, whose constants are for far longer runs.
A second table reads silence in two ways, with a deadline of 300 visits (`bl.Inbox`): as lost, or as
no sale. Which one is right depends on who reports: every visit, or only those that end in a sale.

pip install 'belated[lab]'
"""

import numpy as np
from drawing import BLACK, BLUE, GREEN, VERMILION, axes, band, save, smooth

import belated as bl

KINDS = ("photos", "reviews", "price")
PAGES, VISITS, SEEDS, PER_HOUR = 4, 4000, 5, 30
BUYS = (0.01, 0.06, 0.05, 0.14, 0.02, 0.16, 0.14, 0.40)  # by what was seen: bits of KINDS
GONE = 8
DEADLINE = 300  # visits


def shop() -> bl.World:
    """The true transitions, and how often visits end without a sale."""
    p = np.zeros((9, 3, 9))
    p[GONE, :, GONE] = 1.0
    for seen in range(8):
        for kind in range(3):
            early_price = kind == 2 and seen & 3 != 3
            leaves = 0.5 if early_price else 0.05
            p[seen, kind, GONE] = leaves
            p[seen, kind, seen | 1 << kind] = 1 - leaves
    mdp = bl.MDP(bl.Transitions.from_dense(p), horizon=PAGES + 1)  # the last step is the checkout
    means = np.zeros((PAGES + 1, 9, 3))
    means[PAGES] = 1 - np.array([*BUYS, 0.0])[:, None]
    return bl.World(mdp, bl.costs.stochastic(means))


def reports(rng: np.random.Generator) -> bl.delays.DelayModel:
    """Hours until a visit is reported: median two hours, a long tail, one in six never."""
    hours = rng.lognormal(np.log(2.0), 1.0, VISITS)
    hours[rng.random(VISITS) < 1 / 6] = np.inf
    return bl.delays.trace(np.maximum(np.ceil(hours * PER_HOUR) - 1, 0))  # in visits


def by_hand(world: bl.World) -> bl.Agent:
    """Delayed OPPO on mean costs, with a bonus and a step size set by hand for this shop."""
    return bl.DelayedOPPO(
        world.problem,
        transitions=bl.parts.Bonus(scale=0.5),
        costs=bl.parts.Averaged(),
        update=bl.parts.Softmax(learning_rate=0.05),
    )


def recommended(world: bl.World) -> bl.Agent:
    """The agent that needs nothing to be set."""
    return bl.recommend(world.problem, information="bandit", paths="at once", lost=True)


def guaranteed(world: bl.World) -> bl.Agent:
    """The paper's agent for this setting."""
    return bl.recommend(
        world.problem, information="bandit", paths="at once", lost=True, aim="guarantee"
    )


def silence(world: bl.World, only_sales: bool, default: float | None, seed: int) -> float:
    """Sales in the last 1000 visits, in per cent; default: the cost of silence."""
    rng = np.random.default_rng(seed)
    delays = reports(rng).draw(VISITS, rng)
    costs = world.costs.seeded(seed)
    inbox = bl.Inbox(recommended(world), deadline=DEADLINE, default=default)
    line = bl.DelayLine()
    sold = 0.0
    for visit in range(VISITS):
        episode = inbox.begin_episode()
        path = world.mdp.play(episode.policy, rng, visit)
        checkout = costs.at(visit)[PAGES, path.states[PAGES], path.actions[PAGES]]
        inbox.take([path, *(bl.StepCost(visit, page, 0.0) for page in range(PAGES))])
        if checkout == 0.0 or not only_sales:
            line.push([bl.StepCost(visit, PAGES, checkout)], int(delays[visit]))
        inbox.take(line.release(visit))
        if visit >= VISITS - 1000:
            values, _ = bl.planning.policy_values(world.mdp, episode.policy, world.costs.means)
            sold += 100 * (1 - values[0][world.problem.start]) / 1000
    return sold


def main() -> None:
    world = shop()
    late = [reports(np.random.default_rng(seed)) for seed in range(SEEDS)]
    settings = {
        "recommended, told at once": (recommended, [bl.delays.none()] * SEEDS, BLACK),
        "recommended, told late": (recommended, late, BLUE),
        "set by hand, told late": (by_hand, late, GREEN),
        "the paper's, told late": (guaranteed, late, VERMILION),
    }
    figure, (left, right) = axes(2, width=10)
    for name, (make, models, colour) in settings.items():
        runs = [
            bl.simulate(
                world,
                make(world),
                delays=model,
                episodes=VISITS,
                seed=seed,
                paths="at once",
            )
            for seed, model in enumerate(models)
        ]
        means = world.costs.means
        start = world.problem.start
        best = 100 * (1 - bl.planning.best_policy(world.mdp, means)[1])
        # Values are exact for the costs drawn in each visit; smoothing shows their mean.
        band(left, 100 * (1 - smooth([run.values for run in runs], 500)), colour, name)
        last = 100 * (1 - np.mean([run.values[-1000:].mean() for run in runs]))
        lost = np.mean([run.delays == bl.NEVER for run in runs])
        print(f"{name:28} sales in the last 1000 visits: {last:.1f}% (never reported: {lost:.0%})")
    uniform = np.full(world.problem.shape, 1 / 3)
    chance = 100 * (1 - bl.planning.policy_values(world.mdp, uniform, means)[0][0, start])
    print(f"{'best possible':28} {best:.1f}%\n{'pages at random':28} {chance:.1f}%")
    for height, label, at, side in (
        (best, "best pages", 1, "left"),
        (chance, "pages at random", VISITS, "right"),
    ):
        left.axhline(height, color="0.5", linestyle=":")
        va = "bottom" if side == "left" else "top"
        left.annotate(label, (at, height), ha=side, va=va, color="0.35")
    left.set(
        xlabel="visit", ylabel="visits that end in a sale, %", xlim=(1, VISITS), ylim=(0, None)
    )
    left.set_title(f"Mean over the last 500 visits, {SEEDS} seeds and 95% band", fontsize=10)
    left.legend(frameon=False, loc="center right")

    delays = runs[0].delays[runs[0].delays != bl.NEVER]
    right.hist(np.minimum(delays, 600), bins=60, color=BLUE, alpha=0.8)
    right.set(xlabel=f"delay in visits ({PER_HOUR} an hour; the last bar is 600 and more)")
    right.set(ylabel="visits")
    right.set_title("When a visit is reported (one seed)", fontsize=10)
    figure.suptitle("What to show in a shop")
    print(f"Figure: {save(figure, 'shop')}\n\nSales in the last 1000 visits if silence is read as")
    print(f"{'':28} {'lost':>8} {'no sale':>8}")
    for only_sales, who in ((False, "every visit reports"), (True, "only sales report")):
        read = [silence(world, only_sales, default, seed=0) for default in (None, 1.0)]
        print(f"{who:28} {read[0]:7.1f}% {read[1]:7.1f}%")


if __name__ == "__main__":
    main()
