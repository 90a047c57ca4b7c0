"""Create random rules about a pod's nodes."""

from __future__ import annotations

from tests.plugin.admission.random_texts import KEYS, OPERATORS, VALUES, Chance, Object

REQUIRED, PREFERRED = (f"{kind}DuringSchedulingIgnoredDuringExecution" for kind in ("required", "preferred"))
SCHEDULED = ("DoNotSchedule", "ScheduleAnyway"), ("", "Never")


class Placement(Chance):
    """Makes random tolerations, affinities and topology spread constraints for pods."""

    def _tolerations(self) -> list[Object]:
        return [self._toleration() for _ in range(self.random.choice([1, 1, 2]))]

    def _toleration(self) -> Object:
        ways: list[Object] = [
            {"operator": "Exists"},
            {"key": self._of(KEYS), "operator": "Exists"},
            {"key": self._of(KEYS), "operator": "Equal", "value": self._of(VALUES)},
            {"key": self._of(KEYS), "value": self._of(VALUES), "effect": "NoSchedule"},
            {"key": self._of(KEYS), "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5},
        ]
        wrong: Object = {
            "key": "",
            "operator": self.random.choice(["", "exists", "Equal", "In", "Exists"]),
            "effect": self.random.choice(["", "NoRun", "NoExecute", "PreferNoSchedule"]),
            "value": self._of(VALUES),
            "tolerationSeconds": self.random.choice([-1, 0, 60]),
        }
        return {**self.random.choice(ways), **{key: value for key, value in wrong.items() if self._wrong()}}

    def _spread(self) -> list[Object]:
        keys = self.random.sample(["zone", "rack", "example.com/row"], self.random.choice([1, 1, 2, 3]))
        return [self._constraint(key) for key in keys]

    def _constraint(self, key: str) -> Object:
        found: Object = {
            "maxSkew": self._of(((1, 2, 5), (0, -1))),
            "topologyKey": self._of(((key,), ("", "zone", "a b"))),
            "whenUnsatisfiable": self._of(SCHEDULED),
        }
        if self._is(0.3) and (found["whenUnsatisfiable"] == "DoNotSchedule" or self._wrong()):
            found["minDomains"] = self._of(((1, 3), (0, -1)))
        if self._is(0.4):
            found["labelSelector"] = self._selector()
        for name in ("nodeAffinityPolicy", "nodeTaintsPolicy"):
            found |= {name: self._of((("Honor", "Ignore"), ("", "honor")))} if self._is(0.2) else {}
        return {name: value for name, value in found.items() if not (name != "minDomains" and self._wrong())}

    def _affinity(self) -> Object:
        makers = {"nodeAffinity": self._nodes, "podAffinity": self._pods, "podAntiAffinity": self._pods}
        return {name: make() for name, make in makers.items() if self._is(0.4)}

    def _nodes(self) -> Object:
        terms = [] if self._wrong() else [self._node_term() for _ in range(self.random.choice([1, 1, 2]))]
        preferred = {"weight": self._weight(), "preference": self._node_term()}
        return self._some({REQUIRED: {"nodeSelectorTerms": terms}, PREFERRED: [preferred]})

    def _node_term(self) -> Object:
        found: Object = {}
        if self._is(0.7):
            found["matchExpressions"] = [self._requirement(compares=True) for _ in range(self.random.choice([1, 2]))]
        if self._is(0.3):
            key = self._of((("metadata.name",), ("name", "")))
            operator = self._of((("In", "NotIn"), OPERATORS[1]))
            values = self._of(((["a"],), ([], ["a", "b"], ["A"], ["a_b"])))
            found["matchFields"] = [{"key": key, "operator": operator, "values": values}]
        return found

    def _pods(self) -> Object:
        weighted = {"weight": self._weight(), "podAffinityTerm": self._pod_term()}
        return self._some({REQUIRED: [self._pod_term()], PREFERRED: [weighted]})

    def _pod_term(self) -> Object:
        found: Object = {"topologyKey": self._of((("zone", "kubernetes.io/hostname"), ("", "a b", "/x")))}
        if self._is(0.5):
            found["labelSelector"] = self._selector()
        if self._is(0.2):
            found["namespaceSelector"] = self._selector()
        if self._is(0.2):
            found["namespaces"] = [self._of((("team", "blue"), ("", "Team", "a.b")))]
        return {} if self._wrong() else found

    def _weight(self) -> int:
        return int(self._of(((1, 50, 100), (0, -1, 101))))

    def _some(self, parts: Object) -> Object:
        return {key: value for key, value in parts.items() if self._is(0.6)}
