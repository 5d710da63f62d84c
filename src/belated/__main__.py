"""`python -m belated` and the `belated` command."""

import gc
import os
import signal
import sys
from collections.abc import Callable

SERVICE = ("serve", "warmup", "token", "extract", "warm", "export", "evaluate", "action")
STOPPED = "belated: stopped; run the same command to continue"


def main() -> None:
    """Run the command line, or say what to install if packages are missing."""
    usual = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    early: list[int] = []
    if usual:  # inside an import, compiled packages turn an interrupt into other exceptions
        signal.signal(signal.SIGINT, lambda number, frame: early.append(number))
    try:
        command = _command()
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("belated"):
            raise
        sys.exit(
            f"belated: the lab needs {error.name}: pip install 'belated[lab]' "
            f"(the service: {', '.join(SERVICE)}, with 'belated[serve]')"
        )
    try:
        if usual:
            signal.signal(signal.SIGINT, _interrupt)
        if early:
            raise KeyboardInterrupt
        code = command()
    except KeyboardInterrupt:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        print(STOPPED, file=sys.stderr)
        code = 130
    gc.freeze()  # no collection at exit, which would take a third of a second
    sys.exit(code)


def _command() -> Callable[[], int]:
    """The function that runs the command line; the service's commands do not import the lab."""
    if sys.argv[1:2] and sys.argv[1] in SERVICE:
        from belated.service import commands  # noqa: PLC0415

        return commands.main
    from belated import cli  # noqa: PLC0415

    return cli.main


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
