"""autoscaling: horizontal autoscalers and their versions."""
