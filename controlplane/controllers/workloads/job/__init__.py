"""Jobs: pods that are to succeed, each counted once."""
