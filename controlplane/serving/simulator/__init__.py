"""The HTTP API of kube-scheduler-simulator beside a served cluster."""
