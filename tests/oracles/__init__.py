"""Our implementations against libraries that others keep: property tests. Differences that are upstream's are named."""
