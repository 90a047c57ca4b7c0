"""The flags that name the cluster: --kubeconfig, --kube-context and --namespace."""

from __future__ import annotations

import argparse

from distrain.apiserver.cluster import Cluster, connect
from distrain.apiserver.target import Target, choose


def connected(options: argparse.Namespace) -> tuple[Target, Cluster]:
    """Return the target that the arguments name, and its cluster, which nothing has been asked of yet."""
    target = choose(kubeconfig=options.kubeconfig, context=options.kube_context, namespace=options.namespace)
    return target, connect(target)
