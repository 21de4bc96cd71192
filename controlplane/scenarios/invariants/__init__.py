"""Ready-made invariants; one module per subject."""
