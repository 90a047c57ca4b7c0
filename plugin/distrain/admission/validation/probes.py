"""Validate the probes of a container (Kubernetes pkg/apis/core/validation/validation.go, validateProbe)."""

from __future__ import annotations

from collections.abc import Iterator

from distrain import kube
from distrain.admission.validation.field_errors import NOT_NEGATIVE, forbidden, invalid, not_supported, required
from distrain.admission.validation.names import port_name
from distrain.admission.validation.ports import LAST
from distrain.kube.pod_spec import Probe, Target

ONE_HANDLER = "may not specify more than 1 handler type"
OF_INIT_CONTAINER = "may not be set for init containers without restartPolicy=Always"
SCHEMES = ("HTTP", "HTTPS")
READINESS = "readinessProbe"


def of_probes(path: str, container: kube.TemplateContainer, *, is_allowed: bool) -> Iterator[str]:
    """Validate the probes of a container.

    An init container must not have probes if it ends before the next container starts.
    """
    for key, probe in (
        ("livenessProbe", container.liveness_probe),
        (READINESS, container.readiness_probe),
        ("startupProbe", container.startup_probe),
    ):
        if probe is not None and not is_allowed:
            yield forbidden(f"{path}.{key}", OF_INIT_CONTAINER)
        elif probe is not None:
            yield from _of_handlers(f"{path}.{key}", probe)
            yield from _of_numbers(f"{path}.{key}", probe, is_readiness=key == READINESS)


def _of_handlers(path: str, probe: Probe) -> Iterator[str]:
    """Yield messages about a probe's handlers: there is none, there are several, or the first handler is invalid."""
    handlers = {"exec": probe.exec, "httpGet": probe.http_get, "tcpSocket": probe.tcp_socket, "grpc": probe.grpc}
    first, *others = [key for key, handler in handlers.items() if handler is not None] or [""]
    if not first:
        yield required(path, "must specify a handler type")
    handler = handlers.get(first)
    if isinstance(handler, Target):
        yield from _of_target(f"{path}.{first}", handler)
    elif handler and not handler.command:
        yield required(f"{path}.{first}.command")
    yield from (forbidden(f"{path}.{other}", ONE_HANDLER) for other in others)


def _of_target(path: str, target: Target) -> Iterator[str]:
    port = 0 if target.port is None else target.port
    if isinstance(port, str):
        yield from (invalid(f"{path}.port", port, wrong) for wrong in port_name(port))
    elif not 1 <= port <= LAST:
        yield invalid(f"{path}.port", port, f"must be between 1 and {LAST}, inclusive")
    if target.scheme and target.scheme not in SCHEMES:
        yield not_supported(f"{path}.scheme", target.scheme, SCHEMES)


def _of_numbers(path: str, probe: Probe, *, is_readiness: bool) -> Iterator[str]:
    for key, number in (
        ("initialDelaySeconds", probe.initial_delay_seconds),
        ("timeoutSeconds", probe.timeout_seconds),
        ("periodSeconds", probe.period_seconds),
        ("successThreshold", probe.success_threshold),
        ("failureThreshold", probe.failure_threshold),
    ):
        if number is not None and number < 0:
            yield invalid(f"{path}.{key}", number, NOT_NEGATIVE)
    # The API server replaces a successThreshold of 0 by 1.
    if not is_readiness and probe.success_threshold not in (None, 0, 1):
        yield invalid(f"{path}.successThreshold", probe.success_threshold, "must be 1")
    seconds = probe.termination_grace_period_seconds
    if seconds is not None and seconds <= 0:
        yield invalid(f"{path}.terminationGracePeriodSeconds", seconds, "must be greater than 0")
    if seconds is not None and is_readiness:
        yield invalid(f"{path}.terminationGracePeriodSeconds", seconds, "must not be set for readinessProbes")
