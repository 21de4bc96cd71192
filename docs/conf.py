"""Configuration of the documentation site, for Sphinx: `python3 dev.py docs` builds it."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from controlplane import __version__

project = "controlplane"
copyright = "the controlplane authors"  # noqa: A001
release = version = __version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "docs._ext.site"]
source_suffix = {".md": "markdown"}
exclude_patterns = ["_build", "_generated"]

smartquotes = False  # options begin with two dashes

html_theme = "furo"
html_title = f"controlplane {release}"
html_copy_source = False
html_show_sphinx = False

myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3
suppress_warnings = ["myst.header"]  # entries of generated pages begin at the level of their page

autodoc_member_order = "bysource"
autodoc_typehints = "description"
autodoc_typehints_description_target = "documented"
autodoc_default_options = {"members": True}

nitpicky = True
# Types of annotations: those of other projects have no pages here, and internal ones are not public.
nitpick_ignore_regex = [(r"py:.*", r".*")]
