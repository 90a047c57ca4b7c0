"""Test what `status` says of pods that kubelet cannot start, with the words of kubelet and container runtimes."""

from __future__ import annotations

import pytest

from tests.plugin.fake_api import FakeApi
from tests.plugin.program import Run
from tests.plugin.status.causes.explained import event, serve_events, told
from tests.plugin.status.runs import PYTORCH, pod, serve, stuck


@pytest.mark.parametrize(
    ("reason", "message", "why", "then"),
    [
        pytest.param(
            "FailedMount",
            'MountVolume.SetUp failed for volume "keys" : secret "nope" not found',
            'run1-worker-1: volume keys: secret "nope" is not in namespace team',
            "create it there, or correct the name in volumes",
            id="secret-missing",
        ),
        pytest.param(
            "FailedMount",
            'MountVolume.SetUp failed for volume "conf" : configmap "nope" not found',
            'run1-worker-1: volume conf: configmap "nope" is not in namespace team',
            "create it there, or correct the name in volumes",
            id="configmap-missing",
        ),
        pytest.param(
            "FailedMount",
            'MountVolume.SetUp failed for volume "keys" : references non-existent secret key: id_rsa',
            "run1-worker-1: volume keys: its Secret or ConfigMap has no key id_rsa",
            "add the key, or correct items in volumes",
            id="key-missing",
        ),
        pytest.param(
            "FailedMount",
            'MountVolume.SetUp failed for volume "data" : hostPath type check failed: /data is not a directory',
            "run1-worker-1: volume data: /data on the node is not a directory",
            "make it on each node, or correct hostPath in volumes",
            id="host-path",
        ),
        pytest.param(
            "FailedMount",
            'MountVolume.SetUp failed for volume "data" : mount failed: exit status 32\nMounting command: mount\n'
            "Output: mount.nfs: Connection timed out",
            'run1-worker-1: MountVolume.SetUp failed for volume "data" : mount failed: exit status 32 Mounting '
            "command: mount Output: mount.nfs: Connection timed out",
            "correct the volume in volumes, or check its server",
            id="nfs",
        ),
        pytest.param(
            "FailedMount",
            'MountVolume.SetUp failed for volume "data" : kubernetes.io/csi: mounter.SetUpAt failed to get CSI client: '
            "driver name efs.csi.aws.com not found in the list of registered CSI drivers",
            "run1-worker-1: volume data: the CSI driver efs.csi.aws.com does not run on the node",
            "install it, or wait until it has started there",
            id="csi-driver",
        ),
        pytest.param(
            "FailedAttachVolume",
            'Multi-Attach error for volume "pvc-1" Volume is already used by pod(s) other',
            "run1-worker-1: volume pvc-1: another node has it attached pod(s) other",
            "end the pod that uses it, or use a claim that several nodes may mount (ReadWriteMany)",
            id="multi-attach",
        ),
        pytest.param(
            "FailedCreatePodSandBox",
            'Failed to create pod sandbox: rpc error: code = Unknown desc = plugin type="bridge" failed: no IPs left',
            'run1-worker-1: the node cannot make the pod\'s network or sandbox: Failed to create pod sandbox: rpc '
            'error: code = Unknown desc = plugin type="bridge" failed: no IPs left',
            "wait; if this lasts, check the node's network plugin or container runtime",
            id="sandbox",
        ),
    ],
)  # fmt: skip
def test_pod_that_kubelet_cannot_start_is_explained(
    api: FakeApi, status: Run, reason: str, message: str, why: str, then: str
) -> None:
    serve(api, PYTORCH, pods=[pod("worker", 0), stuck("worker", 1, reason="ContainerCreating")])
    serve_events(api, event("uid-run1-worker-1", reason, message))

    assert told(status("run1")) == ("Starting", why, then)


@pytest.mark.parametrize(
    "summary",
    [
        "Unable to attach or mount volumes: unmounted volumes=[keys], unattached volumes=[]: timed out waiting",
        'MountVolume.SetUp failed for volume "scripts" : failed to sync configmap cache: timed out waiting for the '
        "condition",
    ],
)
def test_message_that_names_no_cause_does_not_hide_the_cause(api: FakeApi, status: Run, summary: str) -> None:
    serve(api, PYTORCH, pods=[pod("worker", 0), stuck("worker", 1, reason="ContainerCreating")])
    cause = 'MountVolume.SetUp failed for volume "keys" : secret "nope" not found'
    serve_events(
        api,
        event("uid-run1-worker-1", "FailedMount", cause),
        event("uid-run1-worker-1", "FailedMount", summary, "2026-01-01T00:02:00Z"),
    )

    assert told(status("run1"))[1] == 'run1-worker-1: volume keys: secret "nope" is not in namespace team'


NO_LOGIN = "failed to authorize: failed to fetch anonymous token: unexpected status: 401 Unauthorized"


def test_missing_pull_secret_is_the_first_cause_of_a_pull_without_login(api: FakeApi, status: Run) -> None:
    serve(api, PYTORCH, pods=[pod("worker", 0), stuck("worker", 1, reason="ErrImagePull", message=NO_LOGIN)])
    words = "Unable to retrieve some image pull secrets (hub); attempting to pull the image may not succeed."
    serve_events(api, event("uid-run1-worker-1", "FailedToRetrieveImagePullSecret", words))

    assert told(status("run1")) == (
        "Pending",
        "image.pullSecrets: there is no Secret hub in namespace team, and so the node cannot pull r:1: "
        "401 Unauthorized",
        "create it there, or correct the name",
    )


def test_missing_pull_secret_is_not_blamed_for_an_image_that_is_not_there(api: FakeApi, status: Run) -> None:
    missing = stuck("worker", 1, reason="ErrImagePull", message="failed to resolve reference: r:1: not found")
    serve(api, PYTORCH, pods=[pod("worker", 0), missing])
    words = "Unable to retrieve some image pull secrets (hub); attempting to pull the image may not succeed."
    serve_events(api, event("uid-run1-worker-1", "FailedToRetrieveImagePullSecret", words))

    assert told(status("run1"))[1:] == (
        "image.repository: cannot pull r:1: not found",
        "correct image.repository or image.tag, or push the image",
    )


def test_back_off_does_not_hide_why_the_pull_failed(api: FakeApi, status: Run) -> None:
    serve(api, PYTORCH, pods=[pod("worker", 0), stuck("worker", 1, reason="ImagePullBackOff", message="Back-off")])
    serve_events(api, event("uid-run1-worker-1", "Failed", f'Failed to pull image "r:1": {NO_LOGIN}'))

    assert told(status("run1"))[1:] == (
        "image.repository: cannot pull r:1: 401 Unauthorized",
        "correct image.repository, or name a Secret with a login for this registry under image.pullSecrets",
    )


@pytest.mark.parametrize(
    ("message", "why", "then"),
    [
        pytest.param(
            "couldn't find key TOKEN in Secret team/hub",
            "run1-worker-1: the Secret hub of namespace team has no key TOKEN",
            "add the key to it",
            id="key",
        ),
        pytest.param(
            'configmap "settings" not found',
            'run1-worker-1: cannot start: configmap "settings" not found',
            "correct the values, or create what they name",
            id="configmap",
        ),
        pytest.param(
            "container has runAsNonRoot and image will run as root (pod: x, container: worker)",
            "run1-worker-1: cannot start: container has runAsNonRoot and image will run as root (pod: x, container: "
            "worker)",
            "correct the values, or create what they name",
            id="root",
        ),
    ],
)
def test_container_whose_settings_do_not_hold_is_explained(
    api: FakeApi, status: Run, message: str, why: str, then: str
) -> None:
    waiting = stuck("worker", 1, reason="CreateContainerConfigError", message=message)
    serve(api, PYTORCH, pods=[pod("worker", 0), waiting])

    assert told(status("run1")) == ("Pending", why, then)
