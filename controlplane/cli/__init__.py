"""The command line. Each command is a module of its own, imported when it is used."""
