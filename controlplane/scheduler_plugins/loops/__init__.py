"""What runs beside the scheduler and the kubelets."""
