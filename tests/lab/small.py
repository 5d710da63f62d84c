"""Small experiments, and the files that a run leaves."""

from belated.lab import Experiment, Learner, part

STEP = part("softmax", learning_rate=0.1)
BONUS = part("oppo", transitions="bonus", update=STEP)
TINY = Experiment(
    name="tiny",
    environment=part("gridworld", size=3, horizon=4),
    delays=part("geometric", mean=2),
    agents=(Learner("A", part("oppo", update=STEP)), Learner("B", part("oppo"))),
    episodes=12,
    seeds=2,
)


def files(directory):
    """The bytes of every file under `runs`, by name."""
    runs = directory / "runs"
    return {str(p.relative_to(runs)): p.read_bytes() for p in runs.rglob("*") if p.is_file()}
