"""The pages at `/` and `/docs`: one file each, no build step, nothing from the internet.

They read the same addresses as everybody, and put what they read into the page as text only.
"""

from pathlib import Path

HTML = Path(__file__).with_name("page.html").read_text(encoding="utf-8")
DOCS = Path(__file__).with_name("docs.html").read_text(encoding="utf-8")
HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; "
        "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
}
