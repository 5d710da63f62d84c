"""How the documentation is built: sphinx-build -W docs out/docs."""

import sys
from importlib.util import find_spec
from pathlib import Path

import belated

sys.path.insert(0, str(Path(__file__).parent))
import pictures  # and the extension mathml

project = "belated"
copyright = "2026, the belated contributors"
version = release = belated.__version__
extensions = [
    "mathml",
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
]
myst_enable_extensions = ["dollarmath"]
html_math_renderer = "mathml"
html_theme = "furo"
html_title = f"belated {release}"
# STIX Two Math, so that formulas look the same in every browser, with or without the internet.
MATH_FONT = Path(find_spec("ziamath").origin).parent / "fonts" / "STIXTwoMath-Regular.ttf"
html_static_path = ["_static", str(MATH_FONT)]
html_css_files = ["style.css"]
exclude_patterns = ["_build", "_static"]
default_role = "code"
myst_heading_anchors = 3
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_mock_imports = ["stable_baselines3", "torch"]  # documents the extra sb3 without it
napoleon_google_docstring = True
napoleon_numpy_docstring = False
napoleon_use_ivar = True  # attributes are described once, where the class names them
pygments_style = "tango"


def setup(app) -> None:
    """Draw the pictures before anything is read."""
    static = Path(__file__).parent / "_static"
    static.mkdir(exist_ok=True)
    app.connect("builder-inited", lambda app: pictures.main(static))
