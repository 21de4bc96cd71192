"""resource.k8s.io: claims of devices, and what drivers offer."""
