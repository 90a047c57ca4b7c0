"""Change random values so that they satisfy the rules in templates/validate.

Each function of this module makes the values satisfy some of these rules.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

Values = dict[str, Any]


@dataclass(frozen=True)
class Form:
    """A form of job that the chart can render: framework, strategy, kind, API version, elastic or not."""

    framework: str
    strategy: str
    kind: str
    api_version: str
    elastic: bool = False


MPI = ("tensorflow", "pytorch", "mxnet")
FORMS = (
    *(
        Form(framework, "allreduce", "MPIJob", version)
        for framework in MPI
        for version in ("v2beta1", "v1", "v1alpha2")
    ),
    *(Form(framework, "allreduce", "Plain", "") for framework in MPI),
    *(Form("pytorch", "allreduce", "PyTorchJob", "v1", elastic) for elastic in (True, False)),
    Form("mxnet", "parameter-server", "MXJob", "v1"),
    Form("mxnet", "parameter-server", "MXJob", "v1beta1"),
    Form("tensorflow", "parameter-server", "TFJob", "v1"),
)
# Except in an elastic job, the pods of these kinds learn the number of pods only once, when they start.
FIXED = ("MXJob", "TFJob", "PyTorchJob")
MPI_KINDS = ("MPIJob", "Plain")
ROLES = {"launcher": ("MPIJob", "Plain", "TFJob"), "servers": ("MXJob", "TFJob"), "scheduler": ("MXJob",)}


SSH_PORT = 2222


def fit(values: Values, form: Form, chance: random.Random) -> None:
    """Change the values in place so that they are valid for this form of job."""
    for rule in (
        fit_form,
        fit_roles,
        fit_sizes,
        fit_rescale,
        fit_run_policy,
        fit_gang,
        fit_security,
        fit_containers,
        fit_data,
        fit_mpi,
        fit_rbac,
        fit_ports,
        fit_tensorboard,
        fit_recipe,
        fit_delivery,
        fit_every_role,
        fit_objects,
    ):
        rule(values, form, chance)


def fit_recipe(values: Values, form: Form, chance: random.Random) -> None:
    trainer = group(values, "trainer")
    if form.strategy == "parameter-server":
        for key in ("ema", "evaluateEvery"):
            trainer.pop(key, None)
    if trainer.get("milestones"):
        trainer["schedule"] = "step"
    elif trainer.get("schedule") == "step":
        trainer["schedule"] = "cosine"
    if not values.get("data", {}).get("uri"):
        for key in ("milestones", "warmupEpochs", "evaluateEvery"):
            trainer.pop(key, None)
        if trainer.get("schedule") == "step":
            del trainer["schedule"]
    if trainer.get("warmupEpochs"):
        trainer["warmup"] = 0
    if {"scale", "testResize"} & set(trainer.get("augment", {})):
        trainer["extraArgs"] = [*trainer.get("extraArgs", []), "--image-size=224"]


def group(values: Values, name: str) -> Values:
    found: Values = values.setdefault(name, {})
    return found


def fit_form(values: Values, form: Form, chance: random.Random) -> None:
    values["framework"], values["strategy"] = form.framework, form.strategy
    job = group(values, "job")
    is_auto = form.kind not in ("MPIJob", "Plain") or (form.kind == "MPIJob" and form.framework != "pytorch")
    job["kind"] = chance.choice(["auto", form.kind]) if is_auto else form.kind
    # `auto` is possible too: the chart then chooses the API version that the cluster serves.
    job["apiVersion"] = chance.choice(["auto", form.api_version]) if form.api_version else "auto"
    job.pop("elastic", None)
    if form.kind == "PyTorchJob":
        job["elastic"] = form.elastic
    if "enabled" in values:
        values["enabled"] = True
    if form.strategy == "parameter-server":
        group(values, "test").update(workers=None, timeoutSeconds=300)


def fit_roles(values: Values, form: Form, chance: random.Random) -> None:
    for role, kinds in ROLES.items():
        if form.kind not in kinds:
            values.pop(role, None)
    if form.kind == "TFJob":
        group(values, "launcher").pop("workersTimeout", None)


def fit_sizes(values: Values, form: Form, chance: random.Random) -> None:
    workers = group(values, "workers")
    if form.kind == "TFJob" and not values.get("command"):
        workers["gpus"] = min(workers.get("gpus", 1), 1)
    replicas, gpus = workers.get("replicas", 2), workers.get("gpus", 1)
    if values.get("gpus") is not None:
        values["gpus"] = replicas * gpus
    if workers.get("memory"):
        workers["shm"] = "64M"
    for key in ("minReplicas", "maxReplicas"):
        workers.pop(key, None)
    if form.elastic and chance.random() < 0.5:
        workers["minReplicas"] = chance.randint(1, replicas)
        workers["maxReplicas"] = chance.randint(replicas, 1000)


def fit_rescale(values: Values, form: Form, chance: random.Random) -> None:
    rescale = group(values, "rescale")
    if form.kind in FIXED and not form.elastic and rescale.get("mode") == "live":
        rescale["mode"] = chance.choice(["auto", "replace"])
    if form.kind not in MPI_KINDS:
        rescale.pop("lostWorkerTimeout", None)


def fit_run_policy(values: Values, form: Form, chance: random.Random) -> None:
    job = group(values, "job")
    if form.api_version in ("v1", "v1beta1"):
        job.update(activeDeadlineSeconds=None)
    if form.api_version != "v2beta1":
        job.pop("ttlSecondsAfterFinished", None)
    elif job.get("cleanPodPolicy") == "All":
        job["cleanPodPolicy"] = "None"
    if form.kind == "Plain":
        job.pop("cleanPodPolicy", None)
    counts_launchers = form.kind == "Plain" or form.api_version == "v2beta1"
    if form.api_version in ("v1alpha2", "v1beta1") or (counts_launchers and job.get("maxRestarts") == 0):
        job.pop("suspend", None)


def fit_gang(values: Values, form: Form, chance: random.Random) -> None:
    schedulers = ["volcano", "scheduler-plugins"]
    if form.kind != "Plain" and (form.kind, form.api_version) != ("MPIJob", "v1"):
        schedulers.append("kueue")
    if form.api_version in ("v1alpha2", "v1beta1"):
        schedulers = []
    gang = values["gang"] = {"scheduler": chance.choice(["none", *schedulers])}
    keys = {"volcano": ["queue", "priorityClass", "schedulerName"], "scheduler-plugins": ["schedulerName"]}
    for key in keys.get(gang["scheduler"], []):
        gang[key] = chance.choice(["", "team-a"])
    if gang["scheduler"] == "kueue":
        gang.update(queue="team-a", priorityClass=chance.choice(["", "high"]))
        values["rescale"].pop("mode", None)
        group(values, "job").pop("suspend", None)
    if gang["scheduler"] != "none":
        values["workers"].get("podSpec", {}).pop("schedulerName", None)


def fit_security(values: Values, form: Form, chance: random.Random) -> None:
    level = values.get("podSecurity", "restricted")
    if level == "restricted" and values.get("runAsUser") == 0:
        values["runAsUser"] = 1001
    user = values.get("runAsUser")
    if form.kind not in MPI_KINDS or form.api_version in ("v1", "v1alpha2"):
        group(values, "ssh").pop("port", None)
    elif user != 0 and (user is not None or level == "restricted"):
        port = group(values, "ssh").get("port", 2222)
        values["ssh"]["port"] = max(port, 1024)
    rdma = values.get("network", {}).get("rdma", {}).get("resource")
    limits = [values.get(section, {}).get("resources", {}).get("limits", {}) for section in ("workers", *ROLES)]
    if level != "privileged" or any(rdma in each for each in [*limits, values.get("resources", {}).get("limits", {})]):
        group(values, "network").pop("rdma", None)
    elif chance.random() < 0.3:
        values["workers"].setdefault("podSpec", {})["hostNetwork"] = True


def fit_containers(values: Values, form: Form, chance: random.Random) -> None:
    """Mount only volumes that the values define. Give all containers of a pod different names."""
    values["volumeMounts"] = [
        {"name": volume["name"], "mountPath": f"/{volume['name']}", "readOnly": chance.random() < 0.5}
        for volume in values.get("volumes", [])
        if chance.random() < 0.7
    ]
    workers = values["workers"]
    if form.api_version not in ("", "v2beta1"):
        workers.get("podSpec", {}).pop("resourceClaims", None)
    ours = {container["name"] for container in workers.get("sidecars", [])}
    first = workers.get("podSpec", {}).get("initContainers", [])
    if any(container["name"] in ours for container in first):
        del workers["podSpec"]["initContainers"]


def fit_data(values: Values, form: Form, chance: random.Random) -> None:
    mounted = [mount["mountPath"] for mount in values["volumeMounts"]]
    source = chance.choice(["synthetic", "s3", *(["volume"] if mounted else [])])
    uris = {"synthetic": "", "s3": "s3://digits/idx", "volume": f"{(mounted or [''])[0]}/images"}
    values["data"] = {**values.get("data", {}), "source": chance.choice([source, None]), "uri": uris[source]}
    kept = [mount["mountPath"] for mount in values["volumeMounts"] if mount["name"] == "fast" and not mount["readOnly"]]
    values["output"] = {"uri": chance.choice(["", "s3://results/a b", *kept])}
    group(values, "checkpoint")["uri"] = chance.choice(["", "s3://checkpoints", *kept])
    trainer = group(values, "trainer")
    trainer.pop(chance.choice(["steps", "epochs"]), None)
    if source == "synthetic":
        trainer.pop("epochs", None)


def fit_mpi(values: Values, form: Form, chance: random.Random) -> None:
    if form.kind != "Plain":
        group(values, "ssh").pop("secretName", None)
    if form.kind not in MPI_KINDS:
        values.pop("mpi", None)
        group(values, "network").pop("excludeInterfaces", None)


def fit_rbac(values: Values, form: Form, chance: random.Random) -> None:
    rbac, job, preflight = group(values, "rbac"), group(values, "job"), group(values, "preflight")
    if job.get("enabled") is False:
        rbac["aggregateToKubeflowEdit"] = True
    if rbac.get("aggregateToKubeflowEdit"):
        rbac["create"] = True
        if form.kind == "Plain" or not job.get("enabled", True):
            rbac["kinds"] = rbac.get("kinds") or ["MPIJob"]
    if rbac.get("create") is False and preflight.get("enabled"):
        preflight["serviceAccountName"] = "capacity-reader"
    if rbac.get("create") is False and form.kind == "Plain":
        group(values, "ssh")["secretName"] = "keys"


def fit_ports(values: Values, form: Form, chance: random.Random) -> None:
    """Keep the metrics port different from the SSH port."""
    monitoring = values.get("monitoring", {})
    if monitoring.get("port") == values.get("ssh", {}).get("port", SSH_PORT):
        monitoring.pop("port", None)


def fit_tensorboard(values: Values, form: Form, chance: random.Random) -> None:
    """Turn TensorBoard's event files off if no output URI is set or the job runs the user's own program."""
    if values.get("command") or not values["output"]["uri"]:
        group(values, "trainer").pop("tensorboard", None)


def fit_objects(values: Values, form: Form, chance: random.Random) -> None:
    """Where two values exclude each other, drop one: ServiceAccount annotations, policies, certificates, managedBy."""
    if values.get("serviceAccountName") or not values.get("rbac", {}).get("create", True):
        values.pop("serviceAccount", None)
    sections = [values, *(values.get(section, {}) for section in ("workers", *ROLES))]
    if any(section.get("podSpec", {}).get("hostNetwork") for section in sections):
        values.pop("networkPolicy", None)
    policy = values.get("networkPolicy", {})
    if policy.get("enabled") and not policy.get("egress"):
        values.pop("serviceMesh", None)
        group(values, "trainer").pop("install", None)
    if values.get("s3", {}).get("insecureTLS"):
        values["s3"].pop("caBundle", None)
    network = group(values, "network")
    if form.kind not in MPI_KINDS:
        network.pop("subnets", None)
    if form.kind != "Plain":
        network.pop("ipFamilyPolicy", None)
    if "subnets" in network:
        network.pop("excludeInterfaces", None)
    s3 = values.get("s3", {})
    uris = [values[name]["uri"] for name in ("data", "output", "checkpoint")]
    has_s3 = any(s3.get(key) for key in ("endpoint", "secretName", "caBundle"))
    if not has_s3 and not any(uri.startswith("s3://") for uri in uris):
        s3.pop("addressingStyle", None)
        s3.pop("region", None)
    # Only training-operator 1.9 and newer have the field managedBy, and no test reads the CRDs of these versions.
    is_checked = values.get("preflight", {}).get("enabled")
    if values["gang"]["scheduler"] != "kueue" or form.api_version != "v2beta1" or is_checked:
        group(values, "job").pop("managedBy", None)
    elif chance.random() < 0.2:
        group(values, "job")["managedBy"] = "kueue.x-k8s.io/multikueue"
    if values["job"].get("managedBy"):
        group(values, "test").update(workers=None, timeoutSeconds=300)


def fit_delivery(values: Values, form: Form, chance: random.Random) -> None:
    """Deliver the trainer to a user's image, but not if the job runs the user's own program."""
    trainer, image, preflight = (group(values, name) for name in ("trainer", "image", "preflight"))
    if values.get("command"):
        trainer.pop("delivery", None)
        trainer.pop("install", None)
    elif "install" in trainer or trainer.get("delivery") == "chart":
        trainer["delivery"] = "chart"
        image["repository"] = image.get("repository") or "pytorch/pytorch"
        image["tag"] = image.get("tag") or "2.9.0"
        if not preflight.get("image"):
            preflight.pop("enabled", None)


def fit_every_role(values: Values, form: Form, chance: random.Random) -> None:
    """Fit the values that are accepted both at the top level and in every role."""
    for section in ("", "workers", *ROLES):
        if not section or section in values:
            part = values if not section else values[section]
            fit_pod_spec(part, form, section, values["gang"]["scheduler"])
            fit_added_containers(part, form, section)
            fit_added_volumes(part)
    user, level = values.get("runAsUser"), values.get("podSecurity", "restricted")
    if user == 0 or (user is None and level != "restricted"):
        for part in (values, *(values.get(section, {}) for section in ("workers", *ROLES))):
            part.get("securityContext", {}).pop("fsGroup", None)
            part.get("securityContext", {}).pop("runAsNonRoot", None)


def fit_pod_spec(part: Values, form: Form, section: str, gang: str) -> None:
    spec = part.get("podSpec", {})
    if section not in ("", "workers"):
        spec.pop("terminationGracePeriodSeconds", None)
    if form.api_version not in ("", "v2beta1"):
        spec.pop("resourceClaims", None)
    for key in ("runtimeClassName", "schedulerName", "initContainers"):
        if part.get(key):
            spec.pop(key, None)
    if gang != "none":
        spec.pop("schedulerName", None)
        part.pop("schedulerName", None)


def fit_added_containers(part: Values, form: Form, section: str) -> None:
    """Remove native sidecars (init containers with a restartPolicy) for old operators, which would drop this field.

    Remove mounts of volumes that the container's role does not define.
    """
    names = [volume["name"] for volume in part.get("volumes", [])] if section else []
    for container in part.get("initContainers", []):
        mounts = [mount for mount in container.pop("volumeMounts", []) if mount["name"] in names]
        container.update({"volumeMounts": mounts} if mounts else {})
    if form.api_version in ("v1alpha2", "v1beta1"):
        for key in ("initContainers", "sidecars"):
            kept = [one for one in part.get(key, []) if "restartPolicy" not in one]
            part.update({key: kept} if key in part else {})


def fit_added_volumes(part: Values) -> None:
    """Remove mounts of volumes that the role does not define. fit_containers does this for the top level."""
    names = [volume["name"] for volume in part.get("volumes", [])]
    if "volumeMounts" in part:
        part["volumeMounts"] = [mount for mount in part["volumeMounts"] if mount["name"] in names]
