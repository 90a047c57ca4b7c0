"""Call the Kubernetes API with the pod's ServiceAccount.

The scripts that import this module run in any image, so the module uses only Python 3.6 and its standard library.
"""

import http.client
import json
import os
import ssl
import time
import urllib.error
import urllib.request

ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"
# Timeout of one try.
SECONDS_TO_ANSWER = 10
# Seconds to wait before each repetition of a failed request.
PAUSES = (1, 2, 4, 8)


class ApiError(Exception):
    """The API server refuses a request, or cannot be reached (status 0).

    `may_pass`: the same request may succeed later.
    """

    def __init__(self, status: int, message: str, may_pass: bool = False) -> None:
        super().__init__(message)
        self.status = status
        self.may_pass = may_pass


class Api:
    def __init__(self, account: str) -> None:
        self.account = account
        host, port = os.environ.get("KUBERNETES_SERVICE_HOST", ""), os.environ.get("KUBERNETES_SERVICE_PORT", "443")
        self.url = "https://{}:{}".format(f"[{host}]" if ":" in host else host, port)
        try:
            context = ssl.create_default_context(cafile=os.path.join(account, "ca.crt"))
            self.namespace = self.read("namespace")
        except OSError as error:
            raise ApiError(
                0, f"{account}: {error.strerror or error}; the pod needs automountServiceAccountToken: true"
            ) from None
        # The proxy in the environment is for the training program, not for the cluster's API.
        self.opener = urllib.request.build_opener(
            urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context)
        )

    def read(self, name: str) -> str:
        with open(os.path.join(self.account, name), encoding="utf-8") as file:
            return file.read().strip()

    def get(self, path: str) -> dict:
        return self.object_of(self.request("GET", path))

    def get_text(self, path: str) -> str:
        return self.request("GET", path).decode(errors="replace")

    def merge(self, path: str, changes: dict) -> dict:
        """Patch an object.

        Raise ApiError with status 409 if the object's resourceVersion differs from the one in `changes`.
        """
        return self.object_of(self.request("PATCH", path, json.dumps(changes).encode()))

    def object_of(self, answer: bytes) -> dict:
        try:
            item = json.loads(answer.decode())
        except ValueError:
            item = None
        if not isinstance(item, dict):
            raise ApiError(
                0, f"{self.url}: answers with something that is no Kubernetes object; does a proxy answer in its place?"
            )
        return item

    def request(self, method: str, path: str, body: bytes = b"") -> bytes:
        """Send a request and return the answer. Try again while the API server is busy or restarts."""
        for pause in (*PAUSES, None):
            try:
                return self.try_once(method, path, body)
            except ApiError as error:
                if pause is None or not error.may_pass:
                    raise
                time.sleep(pause)
        raise AssertionError("the last try returns or raises")

    def try_once(self, method: str, path: str, body: bytes) -> bytes:
        # Read the token for each request, because kubelet renews it.
        headers = {"Authorization": "Bearer " + self.read("token"), "Accept": "application/json, */*"}
        if body:
            headers["Content-Type"] = "application/merge-patch+json"
        request = urllib.request.Request(self.url + path, data=body or None, headers=headers, method=method)
        try:
            with self.opener.open(request, timeout=SECONDS_TO_ANSWER) as answer:
                return answer.read()
        except urllib.error.HTTPError as error:
            raise ApiError(error.code, message_of(error), error.code == 429 or error.code >= 500) from None
        except (OSError, http.client.HTTPException) as error:
            # URLError is an OSError. An answer that ends too early raises an HTTPException.
            reason = getattr(error, "reason", error)
            raise ApiError(0, f"{self.url}: {reason}", not isinstance(reason, ssl.SSLError)) from None


def message_of(error: urllib.error.HTTPError) -> str:
    """Return the message in the API's answer."""
    try:
        return json.loads(error.read())["message"]
    except (OSError, http.client.HTTPException, ValueError, KeyError, TypeError):
        return f"{error.code} {error.reason}"
