"""Gymnasium environments in the feedback loop, and with late rewards.

`loop` plays environments whose probabilities are unknown, and `wrapper` delays the rewards for
learners of other libraries. Importing this package imports Gymnasium, where it is installed, and
makes `belated/LateRewards-v0` known to it. `import belated` does the same if Gymnasium has been
imported, and never imports it by itself.
"""

import contextlib

NAME = "belated/LateRewards-v0"
"""What Gymnasium calls `belated.LateRewards`."""

with contextlib.suppress(ImportError):
    import gymnasium

    if NAME not in gymnasium.registry:
        gymnasium.register(NAME, entry_point="belated.gymnasium.wrapper:made")
