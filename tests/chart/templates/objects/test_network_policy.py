"""Test which connections the chart's NetworkPolicies allow in a namespace that denies all traffic by default."""

from __future__ import annotations

from itertools import permutations
from pathlib import Path
from typing import Any

import pytest

from tests.chart.api_schemas import all_complaints
from tests.chart.documents import HOOK, annotation, hooks, of_kind
from tests.chart.kinds import KINDS, MPI, every_kind
from tests.chart.network_policies import Connection, Host, Pod, allows
from tests.chart.rendering import Yaml, refusal, render_with, set_arguments
from tests.chart.templates.objects.everything import everything, pods

DENY_ALL: Yaml = {
    "metadata": {"namespace": "team"},
    "spec": {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]},
}
API_SERVER, INTERNET = Host("10.96.0.1"), Host("93.184.216.34")
# The metadata service of AWS's nodes, and the agent of EKS Pod Identity, with IPv4 and with IPv6.
CLOUD = [Host(each) for each in ("169.254.169.254", "169.254.170.23", "fd00:ec2::254", "fd00:ec2::23")]
DNS, STRANGER = Pod({"k8s-app": "kube-dns"}, "kube-system"), Pod({"app": "stranger"})
PROMETHEUS = Pod({"app": "prometheus"}, "monitoring")
HOOK_ROLES = ("preflight", "replace", "test", "keygen")
S3 = ("data.uri=s3://digits", "s3.endpoint=http://minio:9000", "s3.secretName=keys")


class Namespace:
    """A release's pods and policies in a namespace that denies all traffic by default."""

    def __init__(self, helm: Path, kind: str, *values: str) -> None:
        self.documents = everything(helm, kind, *values)
        self.policies = [DENY_ALL, *of_kind(self.documents, "NetworkPolicy")]
        self.pods = [Pod(template["metadata"]["labels"]) for template in pods(self.documents)]

    def of(self, instance: str, *, is_hook: bool = False) -> list[Pod]:
        return [pod for pod in self.pods if instance == pod.labels[INSTANCE] and is_hook == (role(pod) in HOOK_ROLES)]

    def allows(self, source: Pod | Host, target: Pod | Host, port: int, protocol: str = "TCP") -> bool:
        return allows(self.policies, Connection(source, target, port, protocol))

    def connects(self, pod: Pod, outsider: Pod, port: int) -> bool:
        """Return whether the release's policies allow the pod and the outsider to connect, in one direction at least.

        The outsider itself may connect to anything.
        """
        policies = [*self.policies, open_to(outsider)]
        return any(allows(policies, Connection(*pair, port)) for pair in ((pod, outsider), (outsider, pod)))


INSTANCE = "app.kubernetes.io/instance"


def open_to(pod: Pod) -> Yaml:
    """Return a policy that allows all traffic of this pod and of other pods with the same labels."""
    spec = {"podSelector": {"matchLabels": dict(pod.labels)}, "policyTypes": ["Ingress", "Egress"]}
    return {"metadata": {"namespace": pod.namespace}, "spec": {**spec, "ingress": [{}], "egress": [{}]}}


def role(pod: Pod) -> str:
    return pod.labels["app.kubernetes.io/component"]


@every_kind
def test_pods_of_a_run_reach_each_other_on_any_port(helm: Path, kind: str) -> None:
    namespace = Namespace(helm, kind)

    run = namespace.of("run1")

    # `zip(run, run)` stands for two pods of the same role, which have the same labels.
    assert [pair for pair in [*permutations(run, 2), *zip(run, run, strict=True)]
            if not namespace.allows(*pair, 2222) or not namespace.allows(*pair, 40123)] == []  # fmt: skip
    assert len(run) == len({role(pod) for pod in run}) >= (1 if kind == "pytorchjob-elastic" else 2)


@every_kind
def test_run_has_nothing_to_do_with_other_pods(helm: Path, kind: str) -> None:
    namespace = Namespace(helm, kind)
    other_run = [Pod({**pod.labels, INSTANCE: "run2"}) for pod in namespace.of("run1")]
    outsiders = [STRANGER, PROMETHEUS, *other_run, *namespace.of("run1", is_hook=True)]
    assert len(outsiders) > 3

    for pod in namespace.of("run1"):
        assert [one for one in outsiders if namespace.connects(pod, one, 2222)] == []


@every_kind
def test_pods_of_a_run_look_up_names(helm: Path, kind: str) -> None:
    namespace = Namespace(helm, kind)

    for pod in namespace.of("run1"):
        assert namespace.allows(pod, DNS, 53, "UDP")
        assert namespace.allows(pod, DNS, 53, "TCP")
        assert namespace.allows(pod, DNS, 5353, "UDP")
        assert not namespace.allows(pod, DNS, 54, "UDP")


@every_kind
def test_only_pods_that_call_the_api_server_reach_it(helm: Path, kind: str) -> None:
    namespace = Namespace(helm, kind)

    callers = {role(pod) for pod in namespace.pods if namespace.allows(pod, API_SERVER, 443)}

    tests = () if "mxjob" in kind or kind == "tfjob" else ("test",)
    of_job = {"mpijob-v1": {"launcher"}, "mpijob-v1alpha2": {"launcher"}, "plain": {"keygen"}}.get(kind, set())
    assert callers == {"preflight", "replace", *tests, *of_job}
    assert [
        role(pod) for pod in namespace.pods if role(pod) in callers and not namespace.allows(pod, API_SERVER, 443)
    ] == []
    assert callers == {role(pod) for pod in namespace.pods if namespace.allows(pod, API_SERVER, 6443)}


@every_kind
def test_hook_reaches_the_api_server_although_argo_cd_changes_its_label(helm: Path, kind: str) -> None:
    """Argo CD ignores the hooks of `helm test`. It does not change the labels of the pods that a job creates."""
    namespace = Namespace(helm, kind)

    found = [Pod({**pod.labels, INSTANCE: "app"}) for pod in namespace.pods if role(pod) in ("preflight", "replace")]

    assert [namespace.allows(pod, API_SERVER, 443) for pod in found] == [True, True]


@every_kind
def test_hooks_reach_the_api_server_alone(helm: Path, kind: str) -> None:
    namespace = Namespace(helm, kind)
    of_hooks = [pod for pod in namespace.pods if role(pod) in HOOK_ROLES]
    assert len(of_hooks) >= 2

    for pod in of_hooks:
        assert not namespace.allows(pod, INTERNET, 80)
        assert not namespace.connects(pod, STRANGER, 2222)
        assert not allows([*namespace.policies, open_to(STRANGER)], Connection(STRANGER, pod, 443))


def test_port_of_the_api_server_is_a_value(helm: Path) -> None:
    namespace = Namespace(helm, "mpijob-v1", "networkPolicy.apiServerPorts={16443}")

    (launcher,) = [pod for pod in namespace.of("run1") if role(pod) == "launcher"]

    assert namespace.allows(launcher, API_SERVER, 16443)
    assert not namespace.allows(launcher, API_SERVER, 443)


@every_kind
def test_job_of_helm_test_is_a_run_of_its_own(helm: Path, kind: str) -> None:
    namespace = Namespace(helm, kind)
    instances = {pod.labels[INSTANCE] for pod in namespace.pods} - {"run1"}
    if not instances:
        assert "mxjob" in kind or kind == "tfjob"
        return
    (test,) = (namespace.of(instance) for instance in instances)

    assert test
    assert [pair for pair in permutations(test, 2) if not namespace.allows(*pair, 40123)] == []
    assert [one for one in namespace.of("run1") for pod in test if namespace.connects(pod, one, 2222)] == []


# Maps values to two facts: the ports on which the pods may reach S3, and whether they may reach the cloud's service for
# role credentials.
REACHED: dict[str, tuple[tuple[str, ...], set[int], bool]] = {
    "none": ((), set(), False),
    "own-server": (S3, {9000}, False),
    "own-server-by-role": (S3[:2], {9000, 443}, True),
    "aws-by-role": (("output.uri=s3://results",), {443}, True),
    "aws-by-key": (("checkpoint.uri=s3://results", "s3.secretName=keys"), {443}, False),
    "http": (("data.uri=s3://digits", "s3.endpoint=http://minio/", "s3.secretName=keys"), {80}, False),
    "ipv6": (("data.uri=s3://digits", "s3.endpoint=https://[fd00::1]:9000", "s3.secretName=keys"), {9000}, False),
}


@pytest.mark.parametrize("case", REACHED)
def test_values_decide_whether_s3_is_reached(helm: Path, case: str) -> None:
    values, ports, asks_cloud = REACHED[case]
    namespace = Namespace(helm, "pytorchjob-elastic", *values)
    (worker,) = namespace.of("run1")

    assert {port for port in (80, 443, 9000, 9001) if namespace.allows(worker, INTERNET, port)} == ports
    assert {namespace.allows(worker, host, 80) for host in CLOUD} == {asks_cloud or 80 in ports}
    assert namespace.allows(worker, Host("fd00:ec2::25"), 80) == (80 in ports)


@pytest.mark.parametrize(
    ("value", "served"),
    [("trainer.metrics=true", True), ("monitoring.annotations=true", True), ("monitoring.podMonitor=false", False)],
)
def test_prometheus_reaches_the_port_of_the_metrics_alone(helm: Path, value: str, served: bool) -> None:
    namespace = Namespace(helm, "pytorchjob-elastic", "monitoring.podMonitor=false", "monitoring.port=9500", value)
    (worker,) = namespace.of("run1")

    assert namespace.allows(PROMETHEUS, worker, 9500) == served
    assert not namespace.allows(PROMETHEUS, worker, 9400)


def test_rules_of_the_user_are_added(helm: Path) -> None:
    rules = (
        "networkPolicy.egress[0].to[0].ipBlock.cidr=93.184.0.0/16", "networkPolicy.egress[0].ports[0].port=8080",
        "networkPolicy.ingress[0].from[0].namespaceSelector.matchLabels.kubernetes\\.io/metadata\\.name=monitoring",
    )  # fmt: skip
    namespace = Namespace(helm, "pytorchjob-elastic", *rules)
    (worker,) = namespace.of("run1")

    assert namespace.allows(worker, INTERNET, 8080)
    assert not namespace.allows(worker, INTERNET, 8081)
    assert namespace.allows(PROMETHEUS, worker, 1234)
    assert not namespace.connects(worker, STRANGER, 1234)


@every_kind
def test_no_policy_unless_asked_for(helm: Path, kind: str) -> None:
    found = everything(helm, kind, "networkPolicy.enabled=false")

    assert of_kind(found, "NetworkPolicy") == []


@pytest.mark.parametrize(
    "key", ["egress=null,ingress[0].ports[0].port=1", "egress[0].ports[0].port=1", "apiServerPorts={443}"]
)
def test_rule_without_a_policy_is_refused(helm: Path, key: str) -> None:
    assignments = [f"networkPolicy.{part}" for part in key.split(",")]
    name = assignments[-1].partition("=")[0].partition("[")[0]

    words = refusal(helm, *set_arguments(*assignments))

    assert f"distrain: {name}: is set, but networkPolicy.enabled is false, so there is no policy; set" in words
    assert words.count("distrain: ") == 1
    # A platform's values may contain policy rules even if the run's values set networkPolicy.enabled to false. Then no
    # policy is created.
    assert "NetworkPolicy" not in render_with(helm, (*assignments, "networkPolicy.enabled=false")).kinds()
    assert "NetworkPolicy" in render_with(helm, (*assignments, "networkPolicy.enabled=true")).kinds()


@every_kind
def test_policies_leave_the_running_job_alone(helm: Path, kind: str) -> None:
    contents = {render_with(helm, (*KINDS[kind], *values)).content for values in ((), ("networkPolicy.enabled=true",))}

    assert len(contents) == 1


@every_kind
def test_policy_of_a_hook_is_there_before_its_pod(helm: Path, kind: str) -> None:
    found = [one for one in everything(helm, kind) if annotation(one, HOOK)]

    for event in {name for one in found for name in annotation(one, HOOK).split(",")}:
        order = [one["kind"] for one in hooks(found, event)]
        assert order.index("NetworkPolicy") < order.index("Pod")


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "mxjob-v1beta1"])
def test_api_knows_every_field(helm: Path, kind: str) -> None:
    rendered = render_with(helm, (*KINDS[kind], *S3[:2], "networkPolicy.enabled=true"))

    assert list(all_complaints(rendered)) == []


@pytest.mark.parametrize("path", ["", "workers."])
def test_pods_on_the_network_of_the_node_are_refused(helm: Path, path: str) -> None:
    values = ("podSecurity=privileged", f"{path}podSpec.hostNetwork=true")

    words = refusal(helm, *set_arguments("networkPolicy.enabled=true", *values))

    assert f"distrain: networkPolicy.enabled: is true, but {path}podSpec.hostNetwork puts pods on the node's" in words
    render_with(helm, values)


INSTALL = (
    "framework=pytorch",
    "image.repository=a/b",
    "image.tag=c",
    "trainer.delivery=chart",
    "trainer.install={boto3}",
)


@pytest.mark.parametrize(
    ("values", "words"),
    [
        pytest.param(INSTALL, "trainer.install: pip needs its package index, which networkPolicy.enabled", id="pip"),
        pytest.param(
            ("serviceMesh=istio",), "serviceMesh: istio: the proxies need the mesh's control plane", id="mesh"
        ),
    ],
)
def test_what_needs_more_than_the_run_itself_asks_for_a_rule(helm: Path, values: tuple[str, ...], words: str) -> None:
    asked = ("networkPolicy.enabled=true", *values)

    assert f"distrain: {words}" in refusal(helm, *set_arguments(*asked))
    render_with(helm, (*asked, "networkPolicy.egress[0].ports[0].port=443"))
    render_with(helm, values)


def test_launchers_of_kinds_without_kubectl_reach_no_api_server(helm: Path) -> None:
    reaching: dict[str, Any] = {}
    for kind in MPI:
        namespace = Namespace(helm, kind)
        (launcher,) = [pod for pod in namespace.of("run1") if role(pod) == "launcher"]
        reaching[kind] = namespace.allows(launcher, API_SERVER, 443)

    assert reaching == {"mpijob-v2beta1": False, "mpijob-v1": True, "mpijob-v1alpha2": True, "plain": False}
