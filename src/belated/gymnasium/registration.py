"""The name under which Gymnasium makes environments with late rewards.

    gymnasium.make("belated/LateRewards-v0", env="CartPole-v1", delays=...)

Gymnasium calls `register` when it is imported (an entry point of the package); `wrapper` calls it
too, for checkouts that are not installed.
"""

from gymnasium.envs import registration

NAME = "belated/LateRewards-v0"


def register() -> None:
    """Let Gymnasium know the name, once."""
    if NAME not in registration.registry:
        registration.register(NAME, entry_point="belated.gymnasium.wrapper:made")
