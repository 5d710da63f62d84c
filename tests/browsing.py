"""Pages in headless Chromium, where it is installed: their DOM, a picture, console messages."""

import base64
import fcntl
import itertools
import json
import os
import shutil
import subprocess

import pytest

from limits import LIMIT, until

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
    """Open a page in a new browser; returns the process, with its output and its errors."""
    return subprocess.run(
        [browser(), *FLAGS, f"--user-data-dir={directory / 'browser'}",
         "--virtual-time-budget=4000", *options, url],
        capture_output=True, text=True, timeout=LIMIT, check=True,
    )  # fmt: skip


def pictured(directory, url, path, width, height):
    """Take a picture of a page, and return its DOM; a message on its console is an error."""
    size = (f"--window-size={width},{height}", "--force-device-scale-factor=1")
    log = ("--enable-logging=stderr", "--log-level=0", f"--screenshot={path}", "--dump-dom")
    done = opened(directory, url, *size, *log, "--hide-scrollbars")
    complaints = [line for line in done.stderr.splitlines() if "CONSOLE" in line]
    assert not complaints, complaints
    return done.stdout


class Browser:
    """A browser that stays open and is driven over a pipe.

    complaints: the log entries and exceptions of all its pages.
    """

    def __init__(self, directory, *options):
        reads, self._writes = os.pipe()
        self._reads, writes = os.pipe()
        ends = [fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 10) for end in (reads, writes)]
        self._process = subprocess.Popen(
            [browser(), *FLAGS, *options, "--hide-scrollbars", "--remote-debugging-pipe",
             f"--user-data-dir={directory / 'browser'}", "about:blank"],
            preexec_fn=lambda: (os.dup2(ends[0], 3), os.dup2(ends[1], 4)),  # noqa: PLW1509
            close_fds=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        for end in (reads, writes, *ends):
            os.close(end)
        self._numbers, self._rest, self.complaints = itertools.count(1), b"", []
        target = self._call("Target.createTarget", url="about:blank")["targetId"]
        attached = self._call("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self._call(f"{domain}.enable", self._session)

    def _call(self, method, session=None, **params):
        number = next(self._numbers)
        asked = {"id": number, "method": method, "params": params}
        if session is not None:
            asked["sessionId"] = session
        os.write(self._writes, json.dumps(asked).encode() + b"\0")
        while True:
            told = self._read()
            if told.get("id") == number:
                assert "error" not in told, told
                return told["result"]

    def _read(self):
        while b"\0" not in self._rest:
            some = os.read(self._reads, 1 << 16)
            assert some, "the browser has ended"
            self._rest += some
        line, _, self._rest = self._rest.partition(b"\0")
        told = json.loads(line)
        if told.get("method") in ("Log.entryAdded", "Runtime.exceptionThrown"):
            self.complaints.append(told["params"])
        return told

    def look(self, width=1200, height=900, *, dark=False):
        """Set the screen of the next page."""
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500}
        self._call("Emulation.setDeviceMetricsOverride", self._session, **size)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self._call("Emulation.setEmulatedMedia", self._session, features=[scheme])

    def open(self, url, ready):
        """Open a page and wait until an expression is true of it."""
        self._call("Page.navigate", self._session, url="about:blank")
        self._call("Page.navigate", self._session, url=url)
        until(lambda: self.run(ready), f"{url} does not become ready")

    def run(self, expression):
        """The value of an expression in the page, once it is known; None after an exception."""
        asked = {"expression": expression, "returnByValue": True, "awaitPromise": True}
        told = self._call("Runtime.evaluate", self._session, **asked)
        return None if "exceptionDetails" in told else told["result"].get("value")

    def picture(self, path):
        """Write a picture of the whole page."""
        size = self._call("Page.getLayoutMetrics", self._session)["cssContentSize"]
        clip = {"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1}
        asked = {"format": "png", "captureBeyondViewport": True, "clip": clip}
        told = self._call("Page.captureScreenshot", self._session, **asked)
        path.write_bytes(base64.b64decode(told["data"]))

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self._process.kill()
        self._process.wait()
        os.close(self._reads)
        os.close(self._writes)
