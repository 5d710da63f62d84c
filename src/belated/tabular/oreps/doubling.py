"""Doubling for FTRL as printed, whose constants follow from the largest delay too.

van der Hoeven, Zierahn, Lancewicki, Rosenberg & Cesa-Bianchi (COLT 2023), Algorithm 4.

    1  f = 1; the parameters are those for K, D and a largest delay of 2^f
    2  before every episode: if some delay that was observed is at least 2^f, f grows by one; new
       parameters and a fresh policy

The paper assumes that K and D are known. Otherwise N = kappa K + D is doubled too, as in
`tabular.doubling`; the paper mentions this without details.

Departure (literal=True undoes it): f grows until 2^f exceeds the delay, not by one.
"""

from collections.abc import Mapping
from typing import Annotated

from belated.core import checks
from belated.core.tree import Entries
from belated.tabular.doubling import HIGHEST, Doubling
from belated.tabular.oreps.ftrl import DelayedFTRL, FTRLSetting
from belated.tabular.tuning import Parameters


class DoublingFTRL(Doubling):
    """Delayed FTRL with its paper's constants, which needs no largest delay.

    Args:
        agent: a fresh `DelayedFTRL`; its learning rate and its barrier are replaced.
        totals: K and D if they are known; None: they are doubled too.
        literal: whether to follow the pseudo-code exactly.

    Example:
        >>> from belated.tabular.oreps.doubling import DoublingFTRL
        >>> world = bl.environments.random_mdp(states=3, actions=2, horizon=4)
        >>> p = world.mdp.transitions
        >>> inside = bl.DelayedFTRL(world.problem, transitions=p, learning_rate=1, barrier=1)
        >>> agent = DoublingFTRL(inside, totals=(20, 40))
        >>> run = bl.simulate(world, agent, delays=bl.delays.fixed(2), episodes=20)
        >>> run.diagnostics['delay_phase']
        2
    """

    delay_phase: Annotated[int, Entries(low=1, high=HIGHEST)]  # f

    def __init__(
        self,
        agent: DelayedFTRL,
        *,
        totals: tuple[int, float] | None = None,
        literal: bool = False,
    ) -> None:
        checks.instance("agent", agent, DelayedFTRL)
        self.totals = _check_totals(totals)
        self.delay_phase = 1
        super().__init__(agent, literal=literal)

    @property
    def parameters(self) -> Parameters:
        """The paper's constants for a largest delay of 2^f, and for K and D or N = 2^e."""
        rows = N = 2.0**self.phase
        if self.totals is not None:
            K, D = self.totals
            rows = self.weight * K
            N = rows + D
        return FTRLSetting().printed(self.problem, N, rows, 2.0**self.delay_phase)

    def diagnostics(self) -> Mapping[str, float]:
        """The diagnostics of `Doubling`, and f."""
        return {**super().diagnostics(), "delay_phase": self.delay_phase}

    def _grow(self) -> bool:
        """Move to the phases of the current estimates. Returns whether one of them is new."""
        before = self.delay_phase
        grown = self.totals is None and super()._grow()
        self.delay_phase = self._next(before, lambda f: self._waiting.largest >= 2.0**f)
        return grown or before != self.delay_phase

    def _begin_phase(self) -> None:
        parameters = self.parameters
        self._threshold = parameters.threshold
        self.agent.restart(parameters)


def _check_totals(totals: object) -> tuple[int, float] | None:
    """K and D, or None."""
    if totals is None:
        return None
    if not isinstance(totals, tuple | list) or len(totals) != 2:
        raise ValueError(f"totals must be K and D, e.g. (1000, 5000), got {checks.show(totals)}")
    return (
        checks.integer("totals[0] (K)", totals[0], 1, checks.MOST),
        checks.real("totals[1] (D)", totals[1], 0.0),
    )
