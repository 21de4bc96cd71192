"""CapacityQuotas, limits on the nodes that a selector selects, and CapacityBuffers, room that is kept free for pods."""
