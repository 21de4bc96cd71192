"""Sets of manifests in the manner of what people install: definitions, their objects, and what nobody runs here."""

from __future__ import annotations

import pytest

from actors import EventLog, strategies
from controlplane.scenarios.engine.execution import Execution
from controlplane.scenarios.engine.plan import plan_of
from controlplane.scenarios.engine.unattended_kinds import note_of
from controlplane.scenarios.manifest_run import SCENARIO

DEFINITION = """
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {{name: {plural}.{group}}}
spec:
  group: {group}
  scope: Namespaced
  names: {{kind: {kind}, plural: {plural}, singular: {single}, listKind: {kind}List}}
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {{status: {{}}}}
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec: {{type: object, x-kubernetes-preserve-unknown-fields: true}}
"""
MONITORING = {
    # read before setup/, as `kubectl apply -R` reads them
    "prometheus.yaml": """
apiVersion: monitoring.example.com/v1
kind: Prometheus
metadata: {name: main, namespace: monitoring}
spec: {replicas: 2, serviceMonitorSelector: {}}
---
apiVersion: monitoring.example.com/v1
kind: ServiceMonitor
metadata: {name: main, namespace: monitoring}
spec: {endpoints: [{interval: 30s, port: web}]}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: main, namespace: monitoring}
spec: {minAvailable: 1, selector: {matchLabels: {app: main}}}
---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: main, namespace: monitoring}
spec: {podSelector: {matchLabels: {app: main}}, policyTypes: [Ingress], ingress: [{}]}
""",
    "setup/namespace.yaml": "{apiVersion: v1, kind: Namespace, metadata: {name: monitoring}}",
    "setup/a.yaml": DEFINITION.format(
        group="monitoring.example.com",
        kind="Prometheus",
        plural="prometheuses",
        single="prometheus",
    ),
    "setup/b.yaml": DEFINITION.format(
        group="monitoring.example.com",
        kind="ServiceMonitor",
        plural="servicemonitors",
        single="servicemonitor",
    ),
    "operator.yaml": """
apiVersion: v1
kind: ServiceAccount
metadata: {name: operator, namespace: monitoring}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: operator}
rules:
- {apiGroups: [monitoring.example.com], resources: ["*"], verbs: ["*"]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: operator}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: operator}
subjects: [{kind: ServiceAccount, name: operator, namespace: monitoring}]
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: operator, namespace: monitoring}
spec:
  selector: {matchLabels: {app: operator}}
  template:
    metadata: {labels: {app: operator}}
    spec:
      serviceAccountName: operator
      nodeSelector: {kubernetes.io/os: linux}
      securityContext: {runAsNonRoot: true, seccompProfile: {type: RuntimeDefault}}
      containers:
      - name: operator
        image: operator:1
        args: ["--log=info"]
        ports: [{containerPort: 8080, name: http}]
        securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}
""",
}
DELIVERY = {
    "install.yaml": DEFINITION.format(
        group="delivery.example.com",
        kind="Application",
        plural="applications",
        single="application",
    )
    + """
---
{apiVersion: v1, kind: ServiceAccount, metadata: {name: controller}}
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: controller}
spec:
  serviceName: controller
  selector: {matchLabels: {app: controller}}
  template:
    metadata: {labels: {app: controller}}
    spec:
      serviceAccountName: controller
      affinity:
        podAntiAffinity:
          preferredDuringSchedulingIgnoredDuringExecution:
          - weight: 100
            podAffinityTerm: {topologyKey: kubernetes.io/hostname, labelSelector: {matchLabels: {app: controller}}}
      containers:
      - name: controller
        image: "controller:1"
        envFrom: [{configMapRef: {name: settings, optional: true}}]
---
apiVersion: delivery.example.com/v1
kind: Application
metadata: {name: guestbook, finalizers: [resources-finalizer.delivery.example.com]}
spec: {project: default, source: {path: guestbook, targetRevision: HEAD}}
"""
}
ENTRY = {
    "deploy.yaml": """
{apiVersion: v1, kind: Namespace, metadata: {name: entry}}
---
{apiVersion: networking.k8s.io/v1, kind: IngressClass, metadata: {name: entry}, spec: {controller: example.com/entry}}
---
apiVersion: batch/v1
kind: Job
metadata: {name: admission-create, namespace: entry}
spec:
  ttlSecondsAfterFinished: 0
  template:
    metadata: {annotations: {emulate.controlplane/run-seconds: "1"}}
    spec:
      restartPolicy: OnFailure
      containers: [{name: create, image: "certgen:1"}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: entry}
webhooks:
- name: validate.entry.example.com
  admissionReviewVersions: [v1]
  sideEffects: None
  failurePolicy: Fail
  clientConfig: {service: {name: admission, namespace: entry, path: /networking/v1/ingresses}}
  rules: [{apiGroups: [networking.k8s.io], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [ingresses]}]
---
apiVersion: v1
kind: Service
metadata: {name: entry, namespace: entry}
spec:
  type: LoadBalancer
  externalTrafficPolicy: Local
  selector: {app: entry}
  ports: [{name: http, port: 80, targetPort: http, appProtocol: http}]
---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: shop}
spec:
  ingressClassName: entry
  rules:
  - host: shop.example.com
    http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: shop, port: {number: 80}}}}]}
"""
}
SETS = {
    "monitoring": (
        MONITORING,
        "NetworkPolicy.networking.k8s.io (1), Prometheus.monitoring.example.com (1),"
        " ServiceMonitor.monitoring.example.com (1)",
    ),
    "delivery": (DELIVERY, "Application.delivery.example.com (1)"),
    "entry": (
        ENTRY,
        "Ingress.networking.k8s.io (1), IngressClass.networking.k8s.io (1),"
        " ValidatingWebhookConfiguration.admissionregistration.k8s.io (1)",
    ),
}


@pytest.mark.parametrize("name", SETS)
def test_a_set_loads_whole_and_tells_what_is_only_kept(name, tmp_path):
    files, kept = SETS[name]
    for path, text in files.items():
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text(text)
    plan = plan_of(SCENARIO, files=(str(tmp_path),), nodes=1)
    run = Execution(plan, strategies.named("fifo", 0), log=EventLog())
    run.execute("bare")
    assert run.result.verdict == "quiescent"
    assert not [verb for verb in run.cluster.activity.refused if verb.startswith("create")]
    assert {obj.view.status.phase for obj in run.cluster.objects("/registry/pods/")} <= {"Running"}
    given = plan.given.submissions
    assert len(given) == sum(len(_documents(text)) for text in files.values())
    note = note_of(run, [(each.tree["apiVersion"], each.tree["kind"]) for each in given])
    assert note == f"only kept, as nothing here acts on them: {kept}"


def _documents(text: str) -> list[str]:
    return [part for part in text.split("\n---\n") if part.strip()]
