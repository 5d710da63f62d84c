"""When feedback arrives: delay models, recorded delays, and the delay line."""

from belated.core.delays import *  # noqa: F403 - the same names, without the room
