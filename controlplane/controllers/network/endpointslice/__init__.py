"""Which addresses stand behind a service, in slices of limited size."""
