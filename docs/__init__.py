"""The documentation site. Its pages are Markdown; `docs._ext` makes those that follow from the code."""
