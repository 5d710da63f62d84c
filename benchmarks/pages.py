"""What the scripts of this directory share: timing a call, and writing their pages."""

import statistics
import time
from collections.abc import Callable
from pathlib import Path


def cpu_time(call: Callable[[], object], repeat: int) -> float:
    """Median processor time of a call, in ms, after one that is not counted."""
    call()
    times = []
    for _ in range(repeat):
        begin = time.process_time()
        call()
        times.append(time.process_time() - begin)
    return statistics.median(times) * 1e3


def write(name: str, lines: list[str]) -> None:
    """Print a page and write it beside the scripts."""
    text = "\n".join(lines)
    print(text)
    Path(__file__).with_name(name).write_text(text, encoding="utf-8")
