"""Create random valid values: any key of the schema, and any form of a job that the chart's rules allow.

The same seed gives the same values. Most random values come from the schema alone. POOLS contains sample values for
keys whose schema says too little. Some rules of the chart concern several values at once; fitting.py repairs random
values that break such a rule. `careless_values` skips that repair.
"""

from __future__ import annotations

import copy
import random
from collections.abc import Callable, Iterator
from typing import Any

import yaml

from schemas.build import is_optional
from tests.chart.fitting import FORMS, fit
from tests.chart.many import Request
from tests.chart.mutations import SCHEMA, Schema, resolved

Values = dict[str, Any]

# SHARE is the probability that a key in values.yaml gets a random value. FEW is the probability that a key missing in
# values.yaml gets a random value. All other keys keep their default values.
SHARE, FEW = 0.25, 0.1


# Values for parts of a pod. For each random job, some of the items under each key are chosen.
PARTS = yaml.safe_load(
    """
tolerations:
  - {key: nvidia.com/gpu, operator: Exists, effect: NoSchedule}
  - {key: team, operator: Equal, value: vision}
  - {operator: Exists}
  - {key: node.kubernetes.io/not-ready, operator: Exists, effect: NoExecute, tolerationSeconds: 0}
affinities:
  - {}
  - nodeAffinity:
      requiredDuringSchedulingIgnoredDuringExecution:
        nodeSelectorTerms: [{matchExpressions: [{key: gpu, operator: In, values: [a100, "1"]}]}]
  - podAffinity:
      preferredDuringSchedulingIgnoredDuringExecution:
        - {weight: 5, podAffinityTerm: {topologyKey: zone, labelSelector: {matchLabels: {app: x}}}}
  - podAntiAffinity:
      requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: zone, labelSelector: {matchLabels: {app: x}}}]
labels:
  - {}
  - {team: vision}
  - {example.com/cost-centre: "42", tier: ""}
  - {a: "true", b: "1e3", c: "null"}
containers:
  - {name: exporter, image: "example.com/exporter:4", ports: [{name: metrics, containerPort: 9400}]}
  - {name: logs, image: fluent-bit, env: [{name: A, value: "{{ 1 }}"}], resources: {limits: {cpu: 2, memory: 1Gi}}}
  - {name: copy, image: busybox, command: [cp, -r, /a, /b], securityContext: {runAsUser: 1001}}
  - name: probe
    image: curl
    livenessProbe: {httpGet: {path: /, port: 80}}
    lifecycle: {preStop: {sleep: {seconds: 3}}}
volumes:
  - {name: data, persistentVolumeClaim: {claimName: images, readOnly: true}}
  - {name: work, emptyDir: {sizeLimit: 10Gi}}
  - {name: settings, configMap: {name: settings, defaultMode: 292, items: [{key: a, path: b}]}}
  - {name: login, projected: {sources: [{secret: {name: login}}]}}
  - {name: fast, csi: {driver: s3.csi.example.com, volumeAttributes: {bucket: b}}}
env:
  - {name: A, value: b}
  - {name: HF_TOKEN, valueFrom: {secretKeyRef: {name: hub, key: token}}}
  - {name: IP, valueFrom: {fieldRef: {fieldPath: status.podIP}}}
  - {name: TF_FORCE_GPU, value: $(A) true}
  - {name: x.y-z, value: " "}
  - {name: EMPTY}
podSpec:
  dnsConfig: {nameservers: [1.2.3.4], options: [{name: ndots, value: "1"}]}
  hostAliases: [{ip: 1.2.3.4, hostnames: [a.example.com]}]
  initContainers: [{name: copy, image: busybox, command: [cp, -r, /a, /b]}]
  overhead: {cpu: 100m, memory: 64Mi}
  preemptionPolicy: Never
  resourceClaims: [{name: gpu, resourceClaimName: gpus}]
  runtimeClassName: nvidia
  schedulerName: bin-packing
  terminationGracePeriodSeconds: 3600
"""
)
# Possible values for keys that are not in values.yaml. The chart accepts most of these keys both at the top level and
# in every role. The names of containers and volumes here differ from the names in PARTS.
ROLE_VALUES = yaml.safe_load(
    """
resources:
  - {limits: {cpu: 200, ephemeral-storage: 10Gi}}
  - {limits: {cpu: "200000m", hugepages-2Mi: 1Gi, vpc.amazonaws.com/efa: 4}, requests: {hugepages-2Mi: 1024Mi}}
  - {requests: {ephemeral-storage: 1000000000}}
  - {claims: []}
env:
  - [{name: OWN, value: "{{ .Values }}"}]
  - [{name: A, value: own}, {name: NODE, valueFrom: {fieldRef: {fieldPath: spec.nodeName}}}]
envFrom:
  - [{secretRef: {name: hub}}, {configMapRef: {name: settings, optional: true}, prefix: S_}]
labels: [{team: own}, {a: "0x1F"}]
annotations: [{networks: rdma}, {a: "yes"}]
nodeSelector: [{team: own}, {pool: "1e3"}]
tolerations:
  - [{key: dedicated, operator: Exists}]
affinity:
  - {podAntiAffinity: {}}
  - nodeAffinity:
      requiredDuringSchedulingIgnoredDuringExecution:
        nodeSelectorTerms: [{matchExpressions: [{key: zone, operator: Exists}]}]
install: [[boto3], ["boto3==1.42.0", pillow]]
topology: [{policy: spread}, {policy: pack, key: zone, required: true}, {policy: none}]
initContainers:
  - [{name: prepare, image: busybox, command: ["true"], volumeMounts: [{name: cache, mountPath: /c}]}]
  - [{name: agent, image: agent, restartPolicy: Always, resources: {limits: {cpu: 1, memory: 1Gi}}}]
sidecars:
  - [{name: proxy, image: proxy, restartPolicy: Always}]
podSpec:
  - {dnsPolicy: Default, shareProcessNamespace: false}
  - {hostAliases: [{ip: 1.2.3.4, hostnames: [b.example.com]}], preemptionPolicy: Never}
  - topologySpreadConstraints:
      - {maxSkew: 2, topologyKey: zone, whenUnsatisfiable: ScheduleAnyway, labelSelector: {matchLabels: {a: b}}}
volumes:
  - [{name: cache, emptyDir: {sizeLimit: 1Gi}}]
volumeMounts:
  - [{name: cache, mountPath: /cache}]
securityContext: [{supplementalGroups: [5000, 2000000000]}, {runAsGroup: 5000, fsGroup: 6000, runAsNonRoot: true}]
containerSecurityContext: [{readOnlyRootFilesystem: true}, {capabilities: {add: [NET_BIND_SERVICE]}}]
priorityClassName: [training-high, ""]
runtimeClassName: [nvidia, ""]
schedulerName: [bin-packing, ""]
commonLabels: [{cost-centre: "42"}, {a: "null", example.com/team: ""}]
commonAnnotations: [{example.com/owner: "{{ .Values }}"}, {a: "yes"}]
serviceMesh: [none, istio, linkerd]
serviceAccount: [{annotations: {eks.amazonaws.com/role-arn: "arn:aws:iam::1:role/a"}}]
subnets: [[10.0.0.0/16], [10.0.0.0/8, 192.168.0.0/16]]
ipFamilyPolicy: [PreferDualStack, SingleStack]
caBundle: [{secretName: ca}, {configMapName: ca, key: "1e3"}]
addressingStyle: [path, virtual]
managedBy: [kueue.x-k8s.io/multikueue]
warmupEpochs: [5, 0.5, "2.5"]
rateScaling: [auto, linear, sqrt, none]
schedule: [constant, cosine, step]
milestones: [[30, 60, 80], ["0.5", 1.5]]
decayFactor: [0.5, "0.2"]
weightDecay: [0.0001, "5e-5", 0]
labelSmoothing: [0.1, "0.05"]
ema: [0.9999, "0.5", 0]
evaluateEvery: [1, 2147483647]
augment:
  - {scale: [0.08, 1], ratio: ["0.75", 1.3333], flip: false}
  - {flip: true, mean: [0.485, 0.456, 0.406], std: [0.229, "0.224", 0.225], testResize: 256}
networkPolicy:
  - {enabled: true}
  - enabled: true
    apiServerPorts: [443, 16443]
    egress: [{to: [{ipBlock: {cidr: 10.0.0.0/8, except: [10.1.0.0/16]}}], ports: [{port: 8000, endPort: 9000}]}]
    ingress: [{from: [{namespaceSelector: {}, podSelector: {matchLabels: {app: prometheus}}}]}]
"""
)
TEXTS = ["yes", "0x1F", "a: b # c", "{{ .Values }}", "ends with\n", " two\nlines", "", "é \u2028 \"'", "~", "1_000"]

Pool = Callable[[random.Random], Any]


def some(choices: list[Any]) -> Pool:
    """Return a few of the items, in random order."""
    return lambda chance: copy.deepcopy(chance.sample(choices, chance.randrange(len(choices) + 1)))


def some_of(whole: Values) -> Pool:
    return lambda chance: {key: copy.deepcopy(whole[key]) for key in chance.sample(list(whole), 3)}


def one(*choices: Any) -> Pool:
    return lambda chance: copy.deepcopy(chance.choice(choices))


def pairs(keys: list[str], values: list[Any]) -> Pool:
    """Return a map in which a few of the keys have random values."""
    return lambda chance: {key: chance.choice(values) for key in chance.sample(keys, chance.randrange(len(keys) + 1))}


SCALARS = [*TEXTS, 0, 1.5, 10**10, True, False, None]
POOLS: dict[str, Pool] = {
    "cpu": one(1, 0.5, "1500m", "2.5", 96, None),
    "memory": one("16Gi", "1.5Gi", "500M", "1000000000", None),
    **dict.fromkeys(("nodeSelector", "labels", "podLabels"), one(*PARTS["labels"])),
    "tolerations": some(PARTS["tolerations"]), "affinity": one(*PARTS["affinities"]),
    "sidecars": some(PARTS["containers"]), "podSpec": some_of(PARTS["podSpec"]),
    "volumes": some(PARTS["volumes"]), "volumeMounts": one([]), "env": some(PARTS["env"]),
    "podAnnotations": pairs(["a", "example.com/b", "c.d"], TEXTS),
    "command": one([], ["python3", "/work/train.py", "--epochs", 10, 0.5, True, *TEXTS], ["true"]),
    "extraArgs": one([], ["--verbose", 3, *TEXTS]), "flags": one([], ["--bind-to", "core", "--tag-output", 1]),
    "mca": pairs(["btl", "pml", "plm_base_verbose", "coll"], SCALARS),
    "mpi.env": pairs(["NCCL_NRINGS", "OMP_NUM_THREADS", "X"], SCALARS),
    "workers.replicas": one(1, 2, 3, 8, 16, 1000), "gpus": one(0, 1, 8), "seed": one(0, 4294967295),
    **dict.fromkeys(("nameOverride", "fullnameOverride"), one("", "vision", 53 * "a")),
    "repository": one("", "team/image", "registry.example.com:5000/a/b"), "tag": one("", "1.0-rc.1", "1e5", "0123"),
    "digest": one("", "sha256:" + 64 * "a"), "pullSecrets": one([], ["login", "1e3"]),
    "data.cache.folder": one(""), "data.cache.size": one("100Gi", "1.5T", "500M", 10**12),
    "maxBadShare": one(None, 0, 0.001, 1e-5, "0.05", "1e-3", 1),
    # Each of the other optimizers is possible only with certain strategies. A longer list would also change the random
    # values of every seed.
    "optimizer": one("sgd", "adam"),
    "learningRate": one(0.1, 1e-7, "1e-5", "0.05", 3), "key": one("zone", "topology.kubernetes.io/zone"),
    "shm": one("1Gi", "64M", "2.5Gi", "2000000"), "s3.endpoint": one("", "https://s3.example.com", "http://10.0.0.1:9000/a"),
    "network.interface": one("", "eth0", "ib0.100"), "excludeInterfaces": one([], ["lo"], ["lo", "docker0"]),
    "global": one({}, {"imageRegistry": "x", "imagePullSecrets": ["a", {"name": "b"}], "deep": {"a": [1]}}),
}  # fmt: skip


def pool_of(path: str, entry: Schema) -> Pool:
    """Return a function that draws a random value for this path.

    It draws from the pool for the path or for its last key, otherwise from values that the schema allows.
    """
    if path in POOLS or path.rpartition(".")[2] in POOLS:
        return POOLS.get(path) or POOLS[path.rpartition(".")[2]]
    known = resolved(entry)
    if "enum" in known:
        return one(*known["enum"])
    examples = [known["default"], *known.get("examples", [])]
    if "boolean" in known["type"]:
        return one(True, False)
    if "minimum" in known:
        # The largest allowed number reveals a Go template that uses int32 instead of int64, or that prints 1e+09.
        return one(*examples, known["minimum"], known["maximum"])
    return one(*examples, *(["abc", "1e3"] if "string" in known["type"] and "pattern" not in known else []))


# The values of these keys come from a separate random generator. So the other values of a seed stay the same if such a
# key is added or left out. See random_values.
APART = ("job.suspend", "trainer.delivery", "trainer.tensorboard", "data.cache.folder", "data.cache.size")


def is_apart(path: str, entry: Schema) -> bool:
    return path in (*APART, "workers.resources") or is_optional(entry)


def random_keys(chance: random.Random, schema: Schema = SCHEMA, prefix: str = "") -> Values:
    """Return random values for some keys. The chart may refuse some combinations of these values."""
    values: Values = {}
    for name, entry in schema["properties"].items():
        path = f"{prefix}{name}"
        if is_apart(path, entry):
            continue
        if "default" in entry:
            if chance.random() < SHARE:
                values[name] = pool_of(path, entry)(chance)
        elif inner := random_keys(chance, entry, f"{path}."):
            values[name] = inner
    return values


def random_values(chance: random.Random, seed: int) -> Values:
    """Return random values for a request of this seed. The chart may refuse some combinations of these values.

    The keys in APART, and the keys that values.yaml leaves out, get their values from separate random generators. So if
    a test leaves these keys out, all other values, and the pods made from them, stay the same.
    """
    values = random_keys(chance)
    for path in APART:
        apart = random.Random(f"{path} {seed}")
        if apart.random() < SHARE:
            *groups, name = path.split(".")
            group, schema = values, SCHEMA
            for each in groups:
                group, schema = group.setdefault(each, {}), schema["properties"][each]
            group[name] = pool_of(path, schema["properties"][name])(apart)
    add_optional_keys(values, random.Random(f"optional {seed}"))
    return values


def add_optional_keys(values: Values, chance: random.Random, schema: Schema = SCHEMA, prefix: str = "") -> None:
    """Add values for some of the keys that values.yaml leaves out."""
    for name, entry in schema["properties"].items():
        path = f"{prefix}{name}"
        if is_optional(entry) or path == "workers.resources":
            if chance.random() < FEW:
                values[name] = copy.deepcopy(chance.choice(ROLE_VALUES[name]))
        elif "properties" in entry and "default" not in entry:
            inner = values.get(name, {})
            add_optional_keys(inner, chance, entry, f"{path}.")
            values.update({name: inner} if inner else {})


def add_nulls(values: Values, chance: random.Random, schema: Schema = SCHEMA) -> None:
    """Set some keys to null. Only keys that values.yaml leaves out, and that have no value yet, can become null."""
    for name, entry in schema["properties"].items():
        if is_optional(entry):
            values.update({name: None} if name not in values and chance.random() < FEW else {})
        elif "properties" in entry and "default" not in entry:
            add_nulls(values.setdefault(name, {}), chance, entry)


def careless_values(seed: int) -> Values:
    """Return values that the schema accepts. The chart may still refuse some combinations of them."""
    return random_values(random.Random(seed), seed)


def random_request(seed: int) -> Request:
    """Return a request with valid random values, a random release and namespace, and the API versions of a cluster."""
    chance = random.Random(seed)
    form = chance.choice(FORMS)
    values = random_values(chance, seed)
    fit(values, form, chance)
    add_nulls(values, random.Random(f"null {seed}"))
    served = (f"kubeflow.org/{form.api_version}/{form.kind}",) if form.api_version else ()
    real = (*served, "apiregistration.k8s.io/v1", "monitoring.coreos.com/v1/PodMonitor")
    release = chance.choice(["run1", "a", "a-long-name-of-a-release-that-helm-still-takes-as-one"])
    return Request(
        str(seed),
        prune(values),
        release,
        chance.choice(["default", "team-a"]),
        served if chance.random() < 0.5 else real,
    )


def random_requests(count: int, first: int = 0) -> Iterator[Request]:
    """Yield `count` requests. The name of a request is its seed."""
    return (random_request(seed) for seed in range(first, first + count))


def prune(values: Values) -> Values:
    """Return the values without groups that no longer contain any key."""
    return {name: value for name, value in values.items() if value != {} or name not in GROUPS}


GROUPS = {name for name, entry in SCHEMA["properties"].items() if "properties" in entry and "default" not in entry}
