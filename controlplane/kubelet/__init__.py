"""The kubelet: decisions in one package per subject, its tasks in `loops`.

pod         pod configuration, pod workers, status, probes, restarts, volumes
node        admission, the Node object, metrics
cm          CPU, memory and topology managers
allocation  allocated and actuated resources, resizes
eviction    eviction under node pressure
config      KubeletConfiguration and its validation
loops       the tasks that await
"""
