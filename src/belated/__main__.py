"""`python -m belated` and the `belated` command."""

import gc
import sys


def main() -> None:
    """Run the command line, or say what to install if packages of the lab are missing."""
    try:
        from belated import cli  # noqa: PLC0415
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("belated"):
            raise
        sys.exit(f"belated: the lab needs {error.name}: pip install 'belated[lab]'")
    code = cli.main()
    gc.freeze()  # no collection at exit, which would take a third of a second
    sys.exit(code)


if __name__ == "__main__":
    main()
