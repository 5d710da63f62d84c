"""Count the files of the package that one recommended bandit episode runs through.

    python tools/walk.py

The files are those of which `sys.setprofile` sees a function while the episode is begun, drawn,
observed and learned from, when everything is imported and compiled.
"""

import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np

import belated as bl

PACKAGE = Path(bl.__file__).parent


def files(run: Callable[[], object]) -> list[str]:
    """The distinct files of the package whose functions a call runs, in their order."""
    seen: dict[str, None] = {}

    def note(frame: object, event: str, _: object) -> None:
        if event == "call":
            name = Path(frame.f_code.co_filename)  # type: ignore[attr-defined]
            if name.is_relative_to(PACKAGE):
                seen[str(name.relative_to(PACKAGE))] = None

    sys.setprofile(note)
    try:
        run()
    finally:
        sys.setprofile(None)
    return list(seen)


def bandit_episode() -> list[str]:
    """The walk of one episode of the recommended agent, with its path and costs."""
    agent = bl.recommend(bl.Problem(states=3, actions=2, horizon=2), information="bandit")
    rng = np.random.default_rng(0)

    def play() -> None:
        episode = agent.begin_episode()
        for h in range(2):
            episode.act(h, 0, rng)
        agent.observe([bl.Costs(episode.number, [0.5, 0.5])])

    for _ in range(3):
        play()
    return files(play)


if __name__ == "__main__":
    walk = bandit_episode()
    print(f"{len(walk)} files:", *walk, sep="\n  ")
