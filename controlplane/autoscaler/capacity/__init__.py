"""CapacityQuotas: limits on the nodes that a selector selects."""
