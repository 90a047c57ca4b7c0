"""Define the configuration and command line of each component of the cluster.

Only flags that the lab needs are set. All other flags, for example kubelet's syncFrequency, have their defaults, so
that the lab behaves like a user's cluster.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from lab.builds.golang import binary
from lab.cluster import kubeconfig
from lab.cluster.certificates import Authority, Pair, write_key
from lab.cluster.namespaces import CGROUP, NODE_ADDRESS
from lab.paths import CACHE_DIR, KUBECONFIG, STATE_DIR

NODE = "distrain-lab"
GPUS = 8
API_SERVER = f"https://{NODE_ADDRESS}:6443"
POD_NETWORK = "10.244.0.0/24"
SERVICE_NETWORK = "10.96.0.0/16"
PAUSE_IMAGE = "docker.io/distrain/pause:lab"
CONTAINERD_SOCKET = STATE_DIR / "containerd.sock"

Command = list[str | Path]


@dataclass(frozen=True)
class Credentials:
    """The files of all keys and certificates of the cluster."""

    authority: Pair
    api_server: Pair
    api_server_to_kubelet: Pair
    kubelet_server: Pair
    service_account_key: Path
    kubeconfigs: dict[str, Path]


def credentials() -> Credentials:
    """Create the authority, its certificates, and the administrator's kubeconfig KUBECONFIG."""
    authority = Authority(STATE_DIR / "pki")
    names = ["kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local"]
    users = {
        "kube-controller-manager": ("system:kube-controller-manager", None),
        "kube-scheduler": ("system:kube-scheduler", None),
        "kube-proxy": ("system:kube-proxy", None),
        "kubelet": (f"system:node:{NODE}", "system:nodes"),
        "coredns": ("system:coredns", None),
        "admin": ("admin", "system:masters"),
    }
    paths = {name: STATE_DIR / f"{name}.kubeconfig" for name in users} | {"admin": KUBECONFIG}
    for name, (user, group) in users.items():
        kubeconfig.write(paths[name], API_SERVER, authority.pair, authority.client(name, user, group))
    return Credentials(
        authority=authority.pair,
        api_server=authority.server("kube-apiserver", names, ["10.96.0.1", NODE_ADDRESS, "127.0.0.1"]),
        api_server_to_kubelet=authority.client("kube-apiserver-kubelet", "kube-apiserver", "system:masters"),
        kubelet_server=authority.server("kubelet-server", [NODE], [NODE_ADDRESS]),
        service_account_key=write_key(STATE_DIR / "pki" / "service-accounts.key"),
        kubeconfigs=paths,
    )


def etcd(_: Credentials) -> Command:
    # etcd writes without fsync, because the lab's data are deleted with the lab.
    return [binary("etcd"), "--data-dir", STATE_DIR / "etcd", "--unsafe-no-fsync", "--log-level", "warn"]


def kube_apiserver(keys: Credentials) -> Command:
    return [
        binary("kube-apiserver"),
        "--etcd-servers=http://127.0.0.1:2379",
        f"--advertise-address={NODE_ADDRESS}",
        f"--service-cluster-ip-range={SERVICE_NETWORK}",
        "--authorization-mode=Node,RBAC",
        "--enable-admission-plugins=NodeRestriction",
        f"--client-ca-file={keys.authority.certificate}",
        f"--tls-cert-file={keys.api_server.certificate}",
        f"--tls-private-key-file={keys.api_server.key}",
        "--service-account-issuer=https://kubernetes.default.svc.cluster.local",
        f"--service-account-key-file={keys.service_account_key}",
        f"--service-account-signing-key-file={keys.service_account_key}",
        # The API server uses the node's address to reach kubelet. With kubelet's host name, `kubectl logs` and `exec`
        # would need the host's resolver.
        "--kubelet-preferred-address-types=InternalIP",
        f"--kubelet-certificate-authority={keys.authority.certificate}",
        f"--kubelet-client-certificate={keys.api_server_to_kubelet.certificate}",
        f"--kubelet-client-key={keys.api_server_to_kubelet.key}",
    ]


def kube_controller_manager(keys: Credentials) -> Command:
    return [
        binary("kube-controller-manager"),
        f"--kubeconfig={keys.kubeconfigs['kube-controller-manager']}",
        "--bind-address=127.0.0.1",
        "--leader-elect=false",
        "--use-service-account-credentials",
        f"--root-ca-file={keys.authority.certificate}",
        f"--service-account-private-key-file={keys.service_account_key}",
    ]


def kube_scheduler(keys: Credentials) -> Command:
    kubeconfig_flag = f"--kubeconfig={keys.kubeconfigs['kube-scheduler']}"
    return [binary("kube-scheduler"), kubeconfig_flag, "--bind-address=127.0.0.1", "--leader-elect=false"]


def kube_proxy(keys: Credentials) -> Command:
    config = {
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "mode": "iptables",
        "clusterCIDR": POD_NETWORK,
        "hostnameOverride": NODE,
        "clientConnection": {"kubeconfig": str(keys.kubeconfigs["kube-proxy"])},
        # kube-proxy must not set these limits: they belong to the host and cannot be set in this namespace.
        "conntrack": {"maxPerCore": 0, "min": 0, "tcpEstablishedTimeout": "0s", "tcpCloseWaitTimeout": "0s"},
    }
    return [binary("kube-proxy"), "--config", _write_yaml("kube-proxy.yaml", config)]


def containerd(_: Credentials) -> Command:
    """Return the command that starts containerd.

    containerd's store of images is in the lab's cache, so each image is unpacked only once.
    """
    network = {
        "cniVersion": "0.4.0",
        "name": "pods",
        "plugins": [
            {
                "type": "bridge",
                "bridge": "pods0",
                "isGateway": True,
                "ipMasq": False,
                "hairpinMode": True,
                "ipam": {
                    "type": "host-local",
                    "dataDir": str(STATE_DIR / "cni-addresses"),
                    "ranges": [[{"subnet": POD_NETWORK}]],
                    "routes": [{"dst": "0.0.0.0/0"}],
                },
            },
            {"type": "portmap", "capabilities": {"portMappings": True}},
        ],
    }
    folder = STATE_DIR / "cni"
    folder.mkdir()
    (folder / "pods.conflist").write_text(json.dumps(network))
    config = STATE_DIR / "containerd.toml"
    config.write_text(
        f"""version = 2
root = "{CACHE_DIR}/containerd"
state = "{STATE_DIR}/containerd"
[grpc]
  address = "{CONTAINERD_SOCKET}"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{PAUSE_IMAGE}"
  # Without CAP_SYS_RESOURCE, as in many a container, a pod cannot be given a lower score than its parent's.
  restrict_oom_score_adj = true
  netns_mounts_under_state_dir = true
  disable_tcp_service = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/usr/lib/cni"
    conf_dir = "{folder}"
"""
    )
    return ["containerd", "--config", config]


def kubelet(keys: Credentials) -> Command:
    resolv_conf = STATE_DIR / "resolv.conf"
    resolv_conf.write_text("")  # programs in the cluster cannot resolve names of other hosts
    config = {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "address": NODE_ADDRESS,
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True},
            "x509": {"clientCAFile": str(keys.authority.certificate)},
        },
        "authorization": {"mode": "Webhook"},
        "tlsCertFile": str(keys.kubelet_server.certificate),
        "tlsPrivateKeyFile": str(keys.kubelet_server.key),
        "containerRuntimeEndpoint": f"unix://{CONTAINERD_SOCKET}",
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": f"/{CGROUP}",
        "failCgroupV1": False,
        "failSwapOn": False,
        "clusterDNS": [NODE_ADDRESS],
        "clusterDomain": "cluster.local",
        "resolvConf": str(resolv_conf),
        "podLogsDir": str(STATE_DIR / "pod-logs"),
        "volumePluginDir": str(STATE_DIR / "volume-plugins"),
        # The lab shares the disk with the host. kubelet must not delete images when the disk is full, because no
        # registry has them.
        "imageGCHighThresholdPercent": 100,
        "evictionHard": {"memory.available": "100Mi", "nodefs.available": "500Mi", "imagefs.available": "500Mi"},
    }
    return [
        binary("kubelet"),
        "--config",
        _write_yaml("kubelet.yaml", config),
        f"--kubeconfig={keys.kubeconfigs['kubelet']}",
        f"--hostname-override={NODE}",
        f"--node-ip={NODE_ADDRESS}",
    ]


def coredns(keys: Credentials) -> Command:
    corefile = STATE_DIR / "Corefile"
    corefile.write_text(
        f""".:53 {{
    bind {NODE_ADDRESS}
    errors
    ready 127.0.0.1:8181
    kubernetes cluster.local in-addr.arpa {{
        kubeconfig {keys.kubeconfigs["coredns"]}
        # A worker that comes back has a new address: no resolver should remember the old one.
        ttl 1
    }}
}}
"""
    )
    return [binary("coredns"), "-conf", corefile]


def gpus(_: Credentials) -> Command:
    """Return the command that starts the device plugin for fake GPUs.

    When kubelet restarts, the device plugin registers again.
    """
    return [binary("gpus"), str(GPUS)]


COMPONENTS: dict[str, Callable[[Credentials], Command]] = {
    "etcd": etcd,
    "containerd": containerd,
    "kube-apiserver": kube_apiserver,
    "kube-controller-manager": kube_controller_manager,
    "kube-scheduler": kube_scheduler,
    "kube-proxy": kube_proxy,
    "kubelet": kubelet,
    "coredns": coredns,
    "gpus": gpus,
}


def _write_yaml(name: str, config: dict[str, Any]) -> Path:
    path = STATE_DIR / name
    path.write_text(yaml.safe_dump(config, sort_keys=False))
    return path
