"""Pod groups: their members in the queue, the cycle in which they are tried together, and what comes of it."""
