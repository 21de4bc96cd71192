"""The kubelet: admission, pod workers, status, heartbeats. Decisions only; `actor.py` runs them."""
