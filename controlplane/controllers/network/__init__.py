"""Controllers of Services: endpoints and endpoint slices."""
