"""The loops of Kueue that are no controller's: its webhook server."""
