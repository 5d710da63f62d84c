"""Pages in headless Chromium, where it is installed: their DOM, a picture, and complaints."""

import shutil
import subprocess

import pytest

from limits import LIMIT

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")
FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
)  # fmt: skip


def browser():
    """The browser, if there is one."""
    return next(filter(None, map(shutil.which, BROWSERS)), None)


needs_browser = pytest.mark.skipif(browser() is None, reason="no Chromium is installed")


def opened(directory, url, *options):
    """What the browser prints of a page, and what it says on its error output."""
    return subprocess.run(
        [browser(), *FLAGS, f"--user-data-dir={directory / 'browser'}",
         "--virtual-time-budget=4000", *options, url],
        capture_output=True, text=True, timeout=LIMIT, check=True,
    )  # fmt: skip


def seen(directory, url):
    """The page as the browser has made it, on a narrow screen."""
    return opened(directory, url, "--window-size=390,844", "--dump-dom").stdout


def pictured(directory, url, path, width, height):
    """Take a picture of a page, and return its DOM; a message on its console is an error."""
    size = (f"--window-size={width},{height}", "--force-device-scale-factor=1")
    log = ("--enable-logging=stderr", "--log-level=0", f"--screenshot={path}", "--dump-dom")
    done = opened(directory, url, *size, *log, "--hide-scrollbars")
    complaints = [line for line in done.stderr.splitlines() if "CONSOLE" in line]
    assert not complaints, complaints
    return done.stdout
