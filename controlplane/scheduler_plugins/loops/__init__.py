"""Tasks that run beside the scheduler and the kubelets."""
