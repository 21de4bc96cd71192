"""Pages and pictures of the site that are made from the code when the site is built.

    command_line  reference of the command line, from the click commands
    catalogue     races and fix gates
    vocabulary    events of the log
    points        points of the scheduler
    annotations   names of the annotations that the code reads, to compare the reference with
    drawing       the picture of the packages, from the import contract
    docstrings    docstrings as reStructuredText
    site          the Sphinx extension that calls the others

All but the last are functions from values to text, and need no Sphinx.
"""
