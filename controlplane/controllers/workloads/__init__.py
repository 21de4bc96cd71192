"""Controllers that keep pods: replicas, daemons, ordinals, jobs, budgets."""
