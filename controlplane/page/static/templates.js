// Objects to begin with, a template for each kind that is created by hand often.

const POD = (indent, extra = "") => `${indent}containers:
${indent}- name: main
${indent}  image: web
${indent}  resources:
${indent}    requests: {cpu: 100m, memory: 64Mi}
${extra}`;

const WORKLOAD = (kind, fields, extra = "") => `apiVersion: apps/v1
kind: ${kind}
metadata:
  name: web
spec:
${fields}  selector:
    matchLabels: {app: web}
  template:
    metadata:
      labels: {app: web}
    spec:
${POD("      ")}${extra}`;

const JOB = (indent) => `${indent}completions: 3
${indent}parallelism: 2
${indent}template:
${indent}  spec:
${indent}    restartPolicy: Never
${POD(`${indent}    `)}`;

const SIMPLE = {
  Pod: `apiVersion: v1
kind: Pod
metadata:
  name: web
spec:
${POD("  ")}`,
  Deployment: WORKLOAD("Deployment", "  replicas: 3\n"),
  ReplicaSet: WORKLOAD("ReplicaSet", "  replicas: 3\n"),
  StatefulSet: WORKLOAD("StatefulSet", "  replicas: 3\n  serviceName: web\n"),
  DaemonSet: WORKLOAD("DaemonSet", ""),
  Job: `apiVersion: batch/v1
kind: Job
metadata:
  name: work
spec:
${JOB("  ")}`,
  CronJob: `apiVersion: batch/v1
kind: CronJob
metadata:
  name: work
spec:
  schedule: "*/5 * * * *"
  jobTemplate:
    spec:
${JOB("      ")}`,
  Service: `apiVersion: v1
kind: Service
metadata:
  name: web
spec:
  selector: {app: web}
  ports:
  - port: 80
`,
  ConfigMap: `apiVersion: v1
kind: ConfigMap
metadata:
  name: settings
data:
  key: value
`,
  Secret: `apiVersion: v1
kind: Secret
metadata:
  name: password
stringData:
  key: value
`,
  Namespace: `apiVersion: v1
kind: Namespace
metadata:
  name: team
`,
  Node: `apiVersion: v1
kind: Node
metadata:
  name: node-new
  labels: {topology.kubernetes.io/zone: zone-a}
status:
  allocatable: {cpu: "4", memory: 16Gi, pods: "110"}
  capacity: {cpu: "4", memory: 16Gi, pods: "110"}
`,
  PriorityClass: `apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata:
  name: urgent
value: 1000
`,
  PodDisruptionBudget: `apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  name: web
spec:
  minAvailable: 2
  selector:
    matchLabels: {app: web}
`,
  HorizontalPodAutoscaler: `apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata:
  name: web
spec:
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web}
  minReplicas: 2
  maxReplicas: 10
  metrics:
  - type: Resource
    resource:
      name: cpu
      target: {type: Utilization, averageUtilization: 50}
`,
  ResourceQuota: `apiVersion: v1
kind: ResourceQuota
metadata:
  name: limits
spec:
  hard: {pods: "10", requests.cpu: "4"}
`,
  PersistentVolumeClaim: `apiVersion: v1
kind: PersistentVolumeClaim
metadata:
  name: data
spec:
  accessModes: [ReadWriteOnce]
  resources:
    requests: {storage: 1Gi}
`,
  PersistentVolume: `apiVersion: v1
kind: PersistentVolume
metadata:
  name: disk
spec:
  accessModes: [ReadWriteOnce]
  capacity: {storage: 1Gi}
  hostPath: {path: /data}
`,
  StorageClass: `apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata:
  name: fast
provisioner: hostpath.csi.k8s.io
`,
  VolumeSnapshot: `apiVersion: snapshot.storage.k8s.io/v1
kind: VolumeSnapshot
metadata:
  name: saved
spec:
  source:
    persistentVolumeClaimName: data
`,
};

export const FIRST = "Pod";

// Kinds that a client may create, the frequent ones first; `served` maps "apiVersion/Kind" to what is known of it.
export function kindsOf(served) {
  const frequent = Object.keys(SIMPLE).filter((kind) => served.has(`${versionOf(SIMPLE[kind])}/${kind}`));
  const known = new Set(frequent.map((kind) => `${versionOf(SIMPLE[kind])}/${kind}`));
  return [...frequent, ...[...served.keys()].filter((each) => !known.has(each)).sort()];
}

// The text for a kind of the table, or for "apiVersion/Kind" of any other: its names and an empty spec.
export function template(kind, served) {
  if (SIMPLE[kind]) return SIMPLE[kind];
  const at = kind.lastIndexOf("/");
  const place = served.get(kind)?.namespaced ? "  namespace: default\n" : "";
  return `apiVersion: ${kind.slice(0, at)}\nkind: ${kind.slice(at + 1)}\nmetadata:\n  name: example\n${place}spec: {}\n`;
}

function versionOf(text) {
  return /^apiVersion: (\S+)$/m.exec(text)[1];
}
