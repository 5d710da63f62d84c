"""The page at `/`: one file, no build step, nothing from the internet.

It reads the same addresses as everybody, and puts what it reads into the page as text only.
"""

from pathlib import Path

HTML = Path(__file__).with_name("page.html").read_text(encoding="utf-8")
HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; "
        "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
}
