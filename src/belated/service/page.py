"""The pages at `/` and `/docs`: one answer each, no build step, nothing from the internet.

They read the same addresses as everybody, and put what they read into the page as text only.
"""

from pathlib import Path


def _text(name: str) -> str:
    return Path(__file__).with_name(name).read_text(encoding="utf-8")


def _page(name: str) -> str:
    """A page with the functions that both share in their place."""
    return _text(name).replace("/* elements.js */\n", _text("elements.js"))


HTML = _page("page.html")
DOCS = _page("docs.html")
HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; "
        "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
}
