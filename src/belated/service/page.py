"""The pages at `/` and `/docs`: one answer each, no build step, nothing from the internet.

They use the public routes, and insert what they read into the page as text only. A page includes
files as `{{file}}`. A browser runs only the scripts and uses only the styles whose hashes the
policy below contains.
"""

import base64
import hashlib
import re
from pathlib import Path

WEB = Path(__file__).with_name("web")


def whole(name: str) -> str:
    """A file of a page with the files that it includes."""
    text = WEB.joinpath(name).read_text(encoding="utf-8")
    return re.sub(r"\{\{([\w./-]+)\}\}", lambda found: whole(found[1]), text)


def _hashes(kind: str) -> str:
    """The hashes of every element of this kind, in the form of the policy."""
    found = re.findall(rf"<{kind}>(.*?)</{kind}>", HTML + DOCS, re.DOTALL)
    hashed = (base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in found)
    return " ".join(f"'sha256-{one}'" for one in hashed)


HTML = whole("page.html")
DOCS = whole("docs.html")
HEADERS = {
    "content-security-policy": (
        f"default-src 'none'; style-src {_hashes('style')}; "
        f"script-src {_hashes('script')}; "
        "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
}
