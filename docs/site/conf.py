"""Sphinx's configuration of the documentation site. scripts/docs copies the pages and this file into one folder and builds it."""

project = "Kinora"
author = "the Kinora developers"
extensions = ["myst_parser"]
source_suffix = {".md": "markdown"}
root_doc = "index"
html_theme = "furo"
html_title = "Kinora"
html_show_copyright = False
html_show_sphinx = False
myst_heading_anchors = 4  # GitHub's anchors, as the pages link to them
# The pages' examples include formats that Pygments does not know; such a block is shown as plain text.
highlight_language = "none"
suppress_warnings = ["misc.highlighting_failure"]
