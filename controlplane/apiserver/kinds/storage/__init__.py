"""storage.k8s.io: classes, CSI drivers and nodes, attachments."""
