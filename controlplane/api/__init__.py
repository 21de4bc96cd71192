"""Values of the Kubernetes API: trees, typed views, quantities, selectors, times."""
