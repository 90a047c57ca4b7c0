"""Watch the workers while mpirun runs: workers that join, leave, or no longer answer.

distrain-launch runs in any image, so this module uses only Python 3.6 and its standard library.
"""

import threading
import time
from typing import Any

from distrain_workers import IS_SLOW, NO_NAMES, REFUSES, LaunchError, names, read_hostfile, say, who_fails

SECONDS_BETWEEN_LOOKS = 2
SECONDS_BETWEEN_CHECKS = 10
SECONDS_OF_SILENCE = 30
SECONDS_BETWEEN_REPORTS = 60
SECONDS_BETWEEN_REQUESTS = 10


class Watch(threading.Thread):
    """A thread that asks the ranks to stop when the set of workers has to change. distrain-launch does the rest.

    Arguments:
      way         a Way, the object that reaches the workers with ssh or `kubectl exec`
      hostfile    path of the hostfile; ignored if is_live is false
      slots       host -> number of slots, for the hosts in use
      given_up    missing hosts that the run no longer waits for
      stopping    event that is set when the launcher receives SIGTERM
      is_live     whether the number of workers may change during the run
    """

    def __init__(self, way: Any, hostfile: str, slots: dict, given_up: set, stopping: Any, is_live: bool) -> None:
        super().__init__(daemon=True)
        self.way, self.hostfile, self.slots, self.given_up = way, hostfile, slots, given_up
        self.stopping, self.is_live = stopping, is_live
        # distrain-launch reads these two attributes: whether the ranks were asked to stop, and which workers no longer
        # answer.
        self.asked, self.lost = False, ""
        self.why, self.first_request = "", 0.0
        self.ended = threading.Event()
        self.asking = threading.Lock()
        self.answering = set()
        self.last_request = self.last_check = 0.0
        self.last_report = time.monotonic() - SECONDS_BETWEEN_REPORTS
        self.last_answers = dict.fromkeys(slots, time.monotonic())

    def run(self) -> None:
        while not self.ended.wait(SECONDS_BETWEEN_LOOKS):
            self.why = self.why or self.reason_to_stop()
            if self.why:
                self.ask()
            elif self.way.is_cheap:
                self.check()

    def finish(self) -> None:
        """End the thread.

        After this method has returned, the thread sends no more requests to stop, so none can reach ranks that start
        later.
        """
        self.ended.set()
        with self.asking:
            pass

    def is_overdue(self, grace: float) -> bool:
        """Tell whether the ranks were asked to stop more than `grace` seconds ago."""
        return self.asked and self.seconds_since_asked() > grace

    def seconds_since_asked(self) -> float:
        return time.monotonic() - self.first_request if self.asked else 0.0

    def reason_to_stop(self) -> str:
        if self.stopping.is_set():
            return "SIGTERM"
        if not self.is_live:
            return ""
        try:
            listed = read_hostfile(self.hostfile)
        except LaunchError:
            # Kubelet is writing the hostfile at this moment.
            return ""
        leaving = [host for host in self.slots if host not in listed]
        if leaving:
            return f"{len(leaving)} workers leave"
        return self.who_came([host for host in listed if host not in self.slots])

    def who_came(self, hosts: list) -> str:
        """Return the reason to stop the ranks if new workers can join, otherwise an empty text.

        New workers can join if all of them (except those given up) answer, and if the same workers also answered at the
        last check.
        """
        absent = who_fails(hosts, self.way.why_absent, self.way.tries_at_once)
        answering = set(hosts) - {host for host, _ in absent}
        is_settled, self.answering = answering == self.answering, answering
        awaited = [(host, reason) for host, reason in absent if host not in self.given_up]
        if awaited:
            self.report(awaited, len(hosts))
            return ""
        return f"{len(answering)} new workers answer" if answering and is_settled else ""

    def report(self, awaited: list, count: int) -> None:
        if time.monotonic() - self.last_report >= SECONDS_BETWEEN_REPORTS:
            self.last_report = time.monotonic()
            goes_on = f"training goes on with {len(self.slots)}"
            say(f"waiting for {len(awaited)} of {count} new workers, {goes_on}: {names(awaited)}")

    def ask(self) -> None:
        """Make process 1 of every worker ask its ranks to stop.

        The request is repeated, because some ranks may still be starting.
        """
        now = time.monotonic()
        if self.asked and now - self.last_request < SECONDS_BETWEEN_REQUESTS:
            return
        with self.asking:
            if self.ended.is_set():
                return
            if not self.asked:
                say(f"asking the ranks to stop at a step boundary: {self.why}")
                self.asked, self.first_request = True, now
            self.last_request = now
            who_fails(list(self.slots), lambda host: self.way.why_not_run(host, "kill -HUP 1"), self.way.tries_at_once)

    def check(self) -> None:
        """Find a worker that has not answered for 30 s. mpirun itself would notice this only after 15 minutes.

        A worker that refuses connections does not count as lost: either its pod is ending and its ranks finish their
        step, or mpirun has already noticed the end of the worker's daemon. An outage of the cluster's DNS is not
        counted either, because the ranks know each other's addresses.
        """
        now = time.monotonic()
        if now - self.last_check < SECONDS_BETWEEN_CHECKS:
            return
        self.last_check = now
        silent = dict(who_fails(list(self.slots), self.way.why_no_answer, self.way.tries_at_once))
        for host in self.slots:
            if silent.get(host, IS_SLOW) in (IS_SLOW, NO_NAMES, REFUSES):
                self.last_answers[host] = now
            elif now - self.last_answers[host] >= SECONDS_OF_SILENCE and not self.lost:
                self.lost = f"no sign of {names([(host, silent[host])])} for {now - self.last_answers[host]:.0f} s"
