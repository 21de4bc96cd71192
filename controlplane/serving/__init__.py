"""A served cluster: the one engine at a pace, with an HTTP rim. What `controlplane serve` does."""
