"""apps: the kinds that keep pods running."""
