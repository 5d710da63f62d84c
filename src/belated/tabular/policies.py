"""Validation of policies (H, S, A) from callers, by a compiled loop."""

from belated.core import checks
from belated.core.arrays import Floats, frozen
from belated.tabular.kernels import weights


def checked(name: str, value: Floats, shape: tuple[int, int, int]) -> Floats:
    """A policy whose rows over actions sum to 1, as a read-only view."""
    if getattr(value, "shape", None) == shape and value.dtype.char == "d":
        rows = frozen(value)
        if weights.are_distributions(rows.reshape(-1, shape[-1]), checks.ROW_TOLERANCE):
            return rows
    return checks.policy(name, value, shape)  # raises with the reason
