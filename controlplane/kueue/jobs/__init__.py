"""Jobs that Kueue manages: what they need, and how they are stopped and started."""
