"""kube-scheduler: what it decides. Pure and synchronous; `actor.py` alone knows how it runs."""
