"""admissionregistration.k8s.io: webhooks, admission policies and their bindings."""
