"""How an API server lives: its actors and tasks, and the rim that speaks HTTP."""
