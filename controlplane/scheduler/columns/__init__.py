"""Node state in columns: one expression of a plugin answers for all nodes."""
