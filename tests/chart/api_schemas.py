"""Check rendered resources against the schemas that Kubernetes and the operators enforce.

The schemas are read from the source code of Kubernetes and of the operators.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator
from typing import Any

import jsonschema
import yaml

from lab.builds import golang
from tests.chart.rendering import Rendered, Yaml

Schema = dict[str, Any]

# CRDS maps a kind to the Go module of its operator and to the file with the kind's CRD. lab/builds/go pins the modules'
# versions.
TRAINING_OPERATOR = ("training-operator", "github.com/kubeflow/training-operator")
CRDS = {
    "MPIJob v2beta1": (
        ("mpi-operator", "github.com/kubeflow/mpi-operator"),
        "manifests/base/kubeflow.org_mpijobs.yaml",
    ),
    "MPIJob v1": (TRAINING_OPERATOR, "manifests/base/crds/kubeflow.org_mpijobs.yaml"),
    "MPIJob v1alpha2": (("mpi-operator-0.3", "github.com/kubeflow/mpi-operator"), "manifests/base/crd.yaml"),
    "PyTorchJob v1": (TRAINING_OPERATOR, "manifests/base/crds/kubeflow.org_pytorchjobs.yaml"),
    "MXJob v1": (TRAINING_OPERATOR, "manifests/base/crds/kubeflow.org_mxjobs.yaml"),
    "TFJob v1": (TRAINING_OPERATOR, "manifests/base/crds/kubeflow.org_tfjobs.yaml"),
}

# The CRD of MPIJob v1alpha2 does not describe the pod templates, and that of MXJob v1beta1 only limits the numbers of
# schedulers and servers. The names of the fields in `spec` come from the operators' Go types (mpi-operator v0.3.0 and
# mxnet-operator v1.1.0).
FIELDS_OF_GO_TYPES = {
    "MPIJob v1alpha2": {
        "slotsPerWorker", "backoffLimit", "activeDeadlineSeconds", "cleanPodPolicy", "mpiReplicaSpecs",
        "mainContainer", "runPolicy", "mpiDistribution",
    },
    "MXJob v1beta1": {"cleanPodPolicy", "successPolicy", "ttlSecondsAfterFinished", "jobMode", "mxReplicaSpecs"},
}  # fmt: skip


@functools.cache
def crd_schema(kind: str) -> Schema:
    """Return the OpenAPI schema of a kind, from its operator's source."""
    (folder, module), path = CRDS[kind]
    text = (golang.module_dir(folder, module) / path).read_text(encoding="utf-8")
    crd = yaml.load(text, yaml.CSafeLoader)
    (version,) = [version for version in crd["spec"]["versions"] if version["name"] == kind.split()[1]]
    schema: Schema = closed(version["schema"]["openAPIV3Schema"])
    return schema


@functools.cache
def native_schema() -> Schema:
    """Return the schemas of Kubernetes' built-in kinds, from the version that the lab runs."""
    source = golang.module_dir("kubernetes", "k8s.io/kubernetes")
    text = (source / "api/openapi-spec/swagger.json").read_text(encoding="utf-8")
    definitions = json.loads(text)["definitions"]
    for name in ("api.resource.Quantity", "util.intstr.IntOrString"):
        # The schema describes these types as strings, but the API also accepts numbers.
        definitions[f"io.k8s.apimachinery.pkg.{name}"] = {}
    return {"definitions": closed(definitions)}


def closed(schema: Any) -> Any:
    """Refuse unknown fields in a schema.

    The API server drops unknown fields silently, or with a warning that few users see.
    """
    if isinstance(schema, list):
        return [closed(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    inner = {key: closed(part) for key, part in schema.items()}
    is_object = schema.get("type") == "object" and isinstance(schema.get("properties"), dict)
    # mpi-operator v0.3.0's CRD does not list apiVersion, kind and metadata.
    is_bare = set(schema.get("properties", {})) == {"spec", "status"}
    is_open = is_bare or schema.get("x-kubernetes-preserve-unknown-fields")
    return {"additionalProperties": False, **inner} if is_object and not is_open else inner


def complaints(schema: Schema, document: Yaml) -> list[str]:
    found = jsonschema.Draft4Validator(schema).iter_errors(document)
    return [f"{error.json_path}: {error.message}" for error in found]


def version_of(document: Yaml) -> str:
    return f"{document['kind']} {document['apiVersion'].rpartition('/')[2]}"


def native_complaints(document: Yaml) -> list[str]:
    """Check a resource of a built-in kind of Kubernetes."""
    group, _, version = document["apiVersion"].rpartition("/")
    package = {"": "core", "rbac.authorization.k8s.io": "rbac", "networking.k8s.io": "networking"}.get(group, group)
    name = f"io.k8s.api.{package}.{version}.{document['kind']}"
    return complaints({"$ref": f"#/definitions/{name}", **native_schema()}, document)


def pod_complaints(template: Yaml) -> list[str]:
    """Check a pod template that the CRD does not describe."""
    return complaints({"$ref": "#/definitions/io.k8s.api.core.v1.PodTemplateSpec", **native_schema()}, template)


def all_complaints(rendered: Rendered) -> Iterator[str]:
    for document in rendered.documents:
        group = document["apiVersion"].partition("/")[0]
        if group == "kubeflow.org":
            kind = version_of(document)
            if kind in CRDS:
                yield from complaints(crd_schema(kind), document)
            if kind in FIELDS_OF_GO_TYPES:
                unknown = set(document["spec"]) - FIELDS_OF_GO_TYPES[kind]
                yield from (f"spec.{field} is unknown" for field in sorted(unknown))
            for replica in rendered.replicas.values():
                assert set(replica) == {"replicas", "restartPolicy", "template"}
                yield from pod_complaints(replica["template"])
        elif not group.startswith("scheduling."):
            yield from native_complaints(document)
