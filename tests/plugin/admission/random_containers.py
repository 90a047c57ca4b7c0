"""Create random containers and volumes of a pod."""

from __future__ import annotations

from collections.abc import Sequence

from tests.plugin.admission.random_texts import NAMES, RESOURCES, VOLUMES, Chance, Object

PORTS = (80, 443, 8080), (0, -1, 65535, 65536, 70000)
VARIABLES = ("A", "a.b", "a b", "1"), ("", "a=", "é", "a\n")
COUNTS = ("1", "2"), ("0", "-1", "500m")
AMOUNTS = ("0", "4Mi", "2Gi"), ("-1", "500m", "3", "3Mi")
SECONDS = (0, 1, 30), (-1,)
PROBED = (80, "http", 65535), (0, 65536, -1, "", "80", "Http")
FILES = ("a", "b/c", "d.txt"), ("", "/a", "../a", "..a", "a/../b", "a")
MODES = (0, 0o440, 0o777), (-1, 0o1000)
FIELDS = (
    ("metadata.name", "spec.host", "status.podIP", "metadata.labels['app']", "metadata.annotations['a/B']"),
    ("", "metadata.labels", "spec.nodename", "status.phase", "metadata.labels['a b']", "metadata.name['a']", "['a']"),
)
PORT_NAMES = ("http", "a1", ""), ("80", "a--b", "-a", "Http", "x" * 16)


class Containers(Chance):
    """Makes random containers and the volumes that they mount."""

    def _container(self, name: str, volumes: Sequence[str]) -> Object:
        found: Object = {"name": self._of(((name,), (*NAMES[0], *NAMES[1])))}
        image = self._of((("busybox", "example.com/a:1"), ("", " a", "a\n")))
        found |= {"image": image} if image or self._is(0.5) else {}
        if self._is(0.3):
            found["env"] = [self._variable() for _ in range(self.random.choice([1, 2]))]
        for key in ("livenessProbe", "readinessProbe", "startupProbe"):
            found |= {key: self._probe()} if self._is(0.2 if name == "c0" else self.share / 2) else {}
        if self._is(0.4):
            found["resources"] = self._resources(RESOURCES)
        if self._is(0.4):
            found["ports"] = [self._port() for _ in range(self.random.choice([1, 1, 2]))]
        if self._is(0.4) and (volumes or self._wrong()):
            found["volumeMounts"] = [self._mount(number, volumes) for number in range(self.random.choice([1, 2]))]
        return found

    def _variable(self) -> Object:
        ways: list[Object] = [
            {"fieldRef": {"fieldPath": self._of(FIELDS)}},
            {
                "resourceFieldRef": {
                    "resource": self._of((("limits.cpu", "requests.memory"), ("", "cpu", "limits.pods")))
                }
            },
            {"secretKeyRef": {"name": "conf", "key": self._of((("k",), ("",)))}},
        ]
        source: Object = self._of((ways, [{}, {**ways[0], **ways[1]}]))
        return {"name": self._of(VARIABLES), **({"valueFrom": source} if self._is(0.5) else {})}

    def _probe(self) -> Object:
        ways: Sequence[Object] = [
            {"exec": {"command": self._of(((["true"],), ([],)))}},
            {"tcpSocket": {"port": self._of(PROBED)}},
            {"httpGet": {"port": self._of(PROBED), "scheme": self._of((("", "HTTP", "HTTPS"), ("http",)))}},
            {"grpc": {"port": self._of(((80,), (0, -1, 65536)))}},
        ]
        numbers = ("initialDelaySeconds", "timeoutSeconds", "periodSeconds", "failureThreshold")
        found = {key: self._of(SECONDS) for key in numbers if self._is(0.3)}
        if self._wrong():
            found["successThreshold"] = self.random.choice([-1, 0, 1, 2])
        if self._wrong():
            found["terminationGracePeriodSeconds"] = self.random.choice([-1, 0, 1, 60])
        chosen = self._of((ways, [{}, {**ways[0], **ways[1]}, {**ways[2], **ways[3]}]))
        return {**found, **chosen}

    def _resources(self, names: tuple[Sequence[str], Sequence[str]]) -> Object:
        """Return limits and, in most cases, requests of the same amounts."""
        limits = self._amounts(names)
        # Huge pages are left out here, because a request for huge pages needs a limit.
        requests = self._amounts((names[0][:4], names[0][:4])) if self._wrong() else limits
        return self.random.choice([{"limits": limits}, {"limits": limits, "requests": requests}])

    def _amounts(self, names: tuple[Sequence[str], Sequence[str]]) -> Object:
        chosen = [self._of(names) for _ in range(self.random.choice([1, 1, 2]))]
        found = {name: self._of(COUNTS if name.endswith(("cpu", "gpu")) else AMOUNTS) for name in chosen}
        return found if self._wrong() else {"cpu": "1", **found}

    def _port(self) -> Object:
        found: Object = {"containerPort": self._of(PORTS)}
        optional: Object = {
            "hostPort": self._of((tuple(range(9000, 9040)), PORTS[1])),
            "hostIP": self.random.choice(["", "127.0.0.1", "10.0.0.1"]),
            "protocol": self._of((("TCP", "UDP", "SCTP"), ("tcp", "HTTP"))),
            "name": self._of(PORT_NAMES),
        }
        shares = dict(zip(optional, (0.2, 0.2, 0.3, 0.1), strict=True))
        found |= {key: value for key, value in optional.items() if self._is(shares[key])}
        if self._wrong():
            found["hostPort"] = 9000
        return {} if self._wrong() else found

    def _mount(self, number: int, volumes: Sequence[str]) -> Object:
        found = {"name": self._of((tuple(volumes) or ("",), VOLUMES[1])), "mountPath": f"/{number}"}
        if self._wrong():
            found["mountPath"] = self.random.choice(["", "/0", "relative", "/a:b"])
        return {"mountPath": "/data"} if self._wrong() else found

    def _claim(self) -> Object:
        modes = self._of(
            ((["ReadWriteOnce"], ["ReadOnlyMany", "ReadWriteMany"]), ([], ["RWO"], ["ReadWriteOncePod"] * 2))
        )
        storage = self._of((("1Gi", "500M"), ("0", "-1Gi")))
        claim: Object = {"accessModes": modes, "resources": {"requests": {"storage": storage}}}
        if self._is(0.2):
            claim["volumeMode"] = self._of((("Block", "Filesystem"), ("block", "File")))
        if self._wrong():
            claim["accessModes"] = ["ReadWriteOncePod", "ReadWriteOnce"]
        if self._wrong():
            claim["selector"] = self._selector()
        return {} if self._wrong() else claim

    def _volumes(self) -> list[Object]:
        names = self.random.sample(VOLUMES[0], self.random.choice([1, 1, 2]))
        return [self._volume(self._of(((name,), (*VOLUMES[0], *VOLUMES[1])))) for name in names]

    def _volume(self, name: str) -> Object:
        claim = {"claimName": self._of((("claim", "c.1"), ("",)))}
        own = {"volumeClaimTemplate": {"spec": self._claim()}}
        sources: list[Object] = [{}, {"emptyDir": {}}, {"persistentVolumeClaim": claim}, {"ephemeral": own}]
        sources += [{"projected": self._projected()}, {"secret": self._files("secretName")}]
        sources += [{"configMap": self._files("name")}]
        more = self.random.choice([*sources, {"hostPath": {"path": "/x"}}]) if self._wrong() else {}
        return {"name": name, **self.random.choice(sources), **more}

    def _files(self, name: str) -> Object:
        found: Object = {name: self._of((("conf",), ("",)))}
        if self._is(0.3):
            found["defaultMode"] = self._of(MODES)
        return {**found, **self._items()}

    def _items(self) -> Object:
        items = [{"key": self._of((("k",), ("",))), "path": self._of(FILES), "mode": self._of(MODES)} for _ in range(2)]
        return {"items": items} if self._is(0.3) else {}

    def _projected(self) -> Object:
        name = self._of((("conf",), ("",)))
        token = {"path": self._of(FILES), "expirationSeconds": self._of(((600, 2**32), (0, 599, 2**32 + 1)))}
        ways: list[Object] = [
            {"secret": {"name": name, **self._items()}},
            {"configMap": {"name": name, **self._items()}},
            {"serviceAccountToken": token},
        ]
        sources = [{**self.random.choice(ways), **(ways[0] if self._wrong() else {})} for _ in range(2)]
        return {"sources": sources, **({"defaultMode": self._of(MODES)} if self._is(0.3) else {})}
