"""`python -m belated` and the `belated` command."""

import gc
import os
import signal
import sys

from belated.interrupts import deferred

STOPPED = "belated: stopped; run the same command to continue"


def main() -> None:
    """Run the command line, or say what to install if packages are missing."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _interrupt)
    code: int | str
    try:
        with deferred():
            from belated import cli  # noqa: PLC0415
        code = cli.main()
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("belated"):
            raise
        code = f"belated needs {error.name}: pip install 'belated[lab]', or 'belated[serve]'"
    except KeyboardInterrupt:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        print(STOPPED, file=sys.stderr)
        code = 130
    gc.freeze()  # no collection at exit, which would take a third of a second
    sys.exit(code)


def _interrupt(number: int, frame: object) -> None:
    """Raise at the first Ctrl-C; at the second, end at once and without a traceback."""
    signal.signal(signal.SIGINT, lambda number, frame: _end())
    raise KeyboardInterrupt


def _end() -> None:
    """Print one line and end. Workers end with this process; the next run removes partial files."""
    cursor = "\033[?25h" if sys.stderr.isatty() else ""  # a progress bar hides it
    os.write(2, f"{cursor}{STOPPED}\n".encode())
    os._exit(130)


if __name__ == "__main__":
    main()
