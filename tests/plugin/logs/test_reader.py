"""Test that no line of a log is lost or read twice, over broken connections and restarts."""

from __future__ import annotations

from pathlib import Path

import pytest

from distrain.apiserver.cluster import Cluster, connect
from distrain.apiserver.target import choose
from distrain.errors import UnreachableError
from distrain.logs.reader import Place, Reader, Wanted
from distrain.logs.stamps import without_stamp
from tests.plugin.fake_api import FakeApi
from tests.plugin.logs.kubelet import Kubelet

POD = "run1-launcher"


@pytest.fixture
def cluster(api: FakeApi, tmp_path: Path) -> Cluster:
    return connect(choose(kubeconfig=str(api.kubeconfig(tmp_path)), context=None, namespace="team"))


class Reading:
    def __init__(self, cluster: Cluster, wanted: Wanted) -> None:
        self.told: list[str] = []
        self.seen: list[str] = []
        self._reader = Reader(cluster, Place("team", POD, "launcher"), wanted, self.told.append)

    def __call__(self, **settings: bool) -> list[str]:
        before = len(self.seen)
        for block in self._reader.read(**settings):
            self.seen += [without_stamp(line).decode() for line in block]
        return self.seen[before:]


@pytest.fixture
def read(cluster: Cluster, kubelet: Kubelet) -> Reading:
    kubelet.start(POD)
    return Reading(cluster, Wanted())


def test_second_reading_has_the_new_lines_alone(kubelet: Kubelet, read: Reading) -> None:
    kubelet.write(POD, "a", "b", "same", "same")
    assert read() == ["a", "b", "same", "same"]

    kubelet.write(POD, "same", "c")

    assert read() == ["same", "c"]
    assert read() == []


def test_same_line_at_the_same_nanosecond_counts_as_often_as_it_was_written(kubelet: Kubelet, read: Reading) -> None:
    kubelet.write(POD, "same", "same", gap=0)
    assert read() == ["same", "same"]

    kubelet.write(POD, "same", "same", gap=0)

    assert read() == ["same", "same"]


def test_line_that_is_a_little_older_than_the_line_before_it_is_read(kubelet: Kubelet, read: Reading) -> None:
    kubelet.now = 10.8
    kubelet.write(POD, "stdout", gap=0.3)
    assert read() == ["stdout"]

    kubelet.write(POD, "stderr", gap=-0.2)

    assert read() == ["stderr"]


def test_rest_of_a_container_that_has_restarted_is_read_before_the_new_one(kubelet: Kubelet, read: Reading) -> None:
    kubelet.write(POD, "a", "b")
    assert read() == ["a", "b"]

    kubelet.write(POD, "c", "last words")
    kubelet.restart(POD)
    kubelet.write(POD, "d")

    assert read() == ["c", "last words", "d"]
    kubelet.write(POD, "e")
    assert read() == ["e"]
    assert read.told == []


def test_rest_of_a_container_is_read_before_the_new_one_writes_a_line(kubelet: Kubelet, read: Reading) -> None:
    kubelet.write(POD, "a")
    assert read() == ["a"]

    kubelet.write(POD, "last words")
    kubelet.restart(POD)

    assert read() == ["last words"]
    assert read() == []


def test_container_that_has_ended_before_its_first_line_was_read_is_read_as_the_previous_one(
    kubelet: Kubelet, read: Reading
) -> None:
    assert read() == []

    kubelet.write(POD, "a")
    kubelet.restart(POD)
    kubelet.write(POD, "b")

    assert read() == ["a", "b"]


def test_two_restarts_between_two_readings_are_told(kubelet: Kubelet, read: Reading) -> None:
    kubelet.write(POD, "a")
    assert read() == ["a"]

    for words in ("lost", "b"):
        kubelet.restart(POD)
        kubelet.write(POD, words)
    kubelet.restart(POD)
    kubelet.write(POD, "c")

    assert read() == ["b", "c"]
    assert read.told == [f"{POD}: lines may be missing here: kubelet has removed a part of the log"]


def test_log_that_kubelet_has_rotated_goes_on_without_repetition(kubelet: Kubelet, read: Reading) -> None:
    kubelet.write(POD, "a", "b", "c")
    assert read() == ["a", "b", "c"]

    kubelet.write(POD, "d")
    del kubelet.logs[POD][-1].lines[:2]
    assert read() == ["d"]
    assert read.told == []

    kubelet.write(POD, "lost", "e")
    del kubelet.logs[POD][-1].lines[:3]
    assert read() == ["e"]
    assert len(read.told) == 1


def test_line_without_an_end_is_read_when_it_is_whole(kubelet: Kubelet, read: Reading) -> None:
    kubelet.write(POD, "a")
    kubelet.logs[POD][-1].rest = b"be"
    assert read() == ["a"]

    kubelet.logs[POD][-1].rest = b"begun"

    assert read(has_rest=True) == ["begun"]


def test_connection_that_breaks_loses_nothing(kubelet: Kubelet, read: Reading) -> None:
    kubelet.write(POD, "a")
    kubelet.after_lines = kubelet.cut

    with pytest.raises(UnreachableError):
        read(follows=True)
    assert read.seen == ["a"]

    kubelet.write(POD, "b")
    kubelet.mend()
    assert read() == ["b"]


@pytest.mark.parametrize(
    ("wanted", "first"),
    [
        pytest.param(Wanted(tail=2), ["c", "d"], id="tail"),
        pytest.param(Wanted(tail=0), [], id="no-line"),
        pytest.param(Wanted(since_seconds=0), ["d"], id="since"),
    ],
)
def test_part_of_a_log_is_followed_by_all_that_comes(
    cluster: Cluster, kubelet: Kubelet, wanted: Wanted, first: list[str]
) -> None:
    read = Reading(cluster, wanted)
    kubelet.start(POD)
    kubelet.write(POD, "a", "b", "c", "d")

    assert read() == first
    kubelet.write(POD, "e")
    assert read() == ["e"]


def test_new_pod_is_read_with_the_container_that_has_ended_already(cluster: Cluster, kubelet: Kubelet) -> None:
    kubelet.start(POD)
    kubelet.write(POD, "a")
    kubelet.restart(POD)
    kubelet.write(POD, "b")

    assert Reading(cluster, Wanted())() == ["b"]
    assert Reading(cluster, Wanted(is_whole=True))() == ["a", "b"]
    assert Reading(cluster, Wanted(previous=True))() == ["a"]
