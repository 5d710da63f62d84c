"""Ctrl-C at a better moment."""

import contextlib
import signal
import threading
from collections.abc import Iterator


@contextlib.contextmanager
def deferred() -> Iterator[None]:
    """Handle Ctrl-C after the block. Processes started inside ignore it.

    Inside an import, compiled packages would turn it into other exceptions; while workers start,
    one would be left half started. Blocking the signal in this thread is not enough: another
    thread may receive it, and Python would still run its handler here.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[int] = []
    usual = signal.signal(signal.SIGINT, lambda number, frame: came.append(number))
    blocks = hasattr(signal, "pthread_sigmask")
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT}) if blocks else set()
    try:
        yield
    finally:
        if blocks:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        signal.signal(signal.SIGINT, usual)
        for number in came:
            signal.raise_signal(number)
