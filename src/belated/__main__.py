"""`python -m belated` and the `belated` command."""

import gc
import os
import signal
import sys


def main() -> None:
    """Run the command line, or say what to install if packages are missing."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _stop)
    try:
        from belated import cli  # noqa: PLC0415

        code = cli.main()
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("belated"):
            raise
        print(
            f"belated needs {error.name}: pip install 'belated[lab]' for experiments, "
            "'belated[serve]' for the service",
            file=sys.stderr,
        )
        code = 2
    gc.freeze()  # no collection at exit, which would take a third of a second
    sys.exit(code)


def _stop(number: int, frame: object) -> None:
    """End at once after Ctrl-C; finished runs are stored, and workers end with this process.

    An exception would appear anywhere, in an import or while workers start.
    """
    cursor = "\033[?25h" if sys.stderr.isatty() else ""  # a progress bar hides it
    os.write(2, f"{cursor}belated: stopped; run the same command to continue\n".encode())
    os._exit(130)


if __name__ == "__main__":
    main()
