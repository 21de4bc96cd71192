"""Parts that several controllers share."""
