"""What runs: processes, one session with an operator, a campaign of sessions."""
