"""How much of a test is run, and how long it waits.

No test depends on how fast the machine is: it waits for an event, and only a wait that would never
end meets a limit.
"""

import importlib.util
import os
import time

import pytest

FULL = os.environ.get("BELATED_FULL_TESTS") == "1"
"""Whether the long forms of tests are run; `make test-all` sets the variable."""
LIMIT = 1800.0
"""Seconds after which a wait is hopeless, on the slowest machine too."""


needs_ray = pytest.mark.skipif(
    not FULL and importlib.util.find_spec("ray") is None,
    reason="needs ray: pip install 'belated[ray]'",
)
"""Tests that need Ray: `make test-all` fails without it."""


def until(done, what="it did not happen", pause=0.02):
    """Wait until `done()` is true; returns its value."""
    end = time.monotonic() + LIMIT
    while not (found := done()):
        assert time.monotonic() < end, what
        time.sleep(pause)
    return found
