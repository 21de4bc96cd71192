"""Which addresses stand behind a service, in one object of the old form."""
