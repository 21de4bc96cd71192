"""The controllers: decisions in one package per subject, their tasks in `loops`.

workloads    deployment, replicaset, statefulset, daemonset, job, cronjob, pod failure and garbage collection
network      services, endpoints, endpoint slices
storage      volumes, claims, attachments, snapshots, provisioning
lifecycle    namespaces, nodes, taints, ownership
autoscaling  horizontal pod autoscaling
common       what several controllers share: expectations, ownership of pods, histories
loops        the tasks that await
"""
