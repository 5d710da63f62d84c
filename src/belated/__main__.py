"""`python -m belated` and the `belated` command."""

import gc
import sys


def main() -> None:
    """Run the command line; say what to install where the lab's packages are missing."""
    try:
        from belated import cli  # noqa: PLC0415
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("belated"):
            raise
        sys.exit(f"belated: the lab needs {error.name}: pip install 'belated[lab]'")
    code = cli.main()
    gc.freeze()  # leave objects to the operating system: a third of a second less at exit
    sys.exit(code)


if __name__ == "__main__":
    main()
