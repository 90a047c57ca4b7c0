"""`python -m lab COMMAND`: the commands that the Makefile's targets run."""

from __future__ import annotations

import argparse
import signal
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

from lab.builds import golang, images
from lab.cluster import client, lifecycle, namespaces, operators
from lab.cluster.operators import DEFAULT, NONE, Operators
from lab.errors import LabError
from lab.gitops import argocd, flux, git
from lab.paths import KUBECONFIG

GITOPS = {"argocd": argocd, "flux": flux}


def up(mpijob: str | None = None, gitops: str | None = None) -> None:
    """Start the cluster, or install the requested operators and GitOps controllers in a running cluster.

    Without --mpijob, a running cluster gets the operators of a new one. With --gitops alone, it keeps its own.
    """
    started = time.monotonic()
    chosen = DEFAULT if mpijob is None else NONE if mpijob == "none" else Operators(mpijob)
    was_up = lifecycle.is_ready()
    lifecycle.up(chosen)
    if was_up and (mpijob or not gitops):
        _install_operators(chosen)
    if gitops:
        _start_gitops(gitops)
    print(
        f"the cluster is ready after {time.monotonic() - started:.1f} s: export KUBECONFIG={KUBECONFIG}\n"
        f"kubectl and helm are in {lifecycle.BIN_DIR}: export PATH={lifecycle.BIN_DIR}:$PATH"
    )


def _install_operators(chosen: Operators) -> None:
    """Install these operators in the running cluster, unless it already has exactly these."""
    if operators.installed() == chosen:
        return
    golang.build(operators.programs(chosen))
    started = time.monotonic()
    effect = "replaced, which ends their jobs" if operators.ends_jobs(chosen) else "added; no job ends"
    print(f"  operators are {effect} ...", end="", flush=True)
    operators.switch(chosen)
    print(f" {time.monotonic() - started:.1f} s")


def _start_gitops(name: str) -> None:
    _end_others(name)
    started = time.monotonic()
    print(f"  {name} ...", end="", flush=True)
    golang.build(GITOPS[name].PROGRAMS)
    GITOPS[name].start()
    print(f" {time.monotonic() - started:.1f} s\nthe repositories in {git.ROOT} are at {git.ADDRESS}/NAME")


def _end_others(name: str) -> None:
    """Stop the controllers of Argo CD or Flux, unless the user asked for them.

    The objects that they have applied stay in the cluster.
    """
    for other, tool in GITOPS.items():
        if other != name and any(map(namespaces.is_running, tool.CONTROLLERS)):
            print(f"  {other} ends; its objects in the cluster and the jobs that it applied stay", flush=True)
            tool.stop()


def status() -> None:
    for name, state in lifecycle.status():
        print(f"{name:25} {state}")
    for name in filter(namespaces.is_running, (*argocd.CONTROLLERS, *flux.CONTROLLERS)):
        print(f"{name:25} running")


def demo() -> None:
    # Import the digits only here: loading scikit-learn takes two seconds, and a Ctrl-C meanwhile would print a
    # traceback.
    from lab.demo import story

    story.main()


def bench() -> None:
    from lab.bench import suite

    suite.main()


def bench_demo() -> None:
    from lab.bench import first_demo

    first_demo.main()


def build_images(frameworks: Sequence[str], only_build: bool = False) -> None:
    """Build the trainer's images. Unless `only_build`, also print their archives, and load them into a running lab."""
    built = [images.trainer_image(framework) for framework in frameworks or images.FRAMEWORKS]
    for image in [] if only_build else built:
        print(f"{image.reference}: {image.archive}", flush=True)
        if lifecycle.is_ready():
            client.load_image(image)


def build() -> None:
    """Build everything that the tests need.

    The build does not run inside pytest, because pytest would hide its progress.

    The Go programs are compiled while the images are built, because building images mostly waits for network and disk.
    """
    with ThreadPoolExecutor() as pool:
        parts = [pool.submit(_told_at_once, each) for each in (golang.build_all, _build_images_and_environments)]
    for part in parts:
        part.result()


def _told_at_once(build_part: Callable[[], None]) -> None:
    """If one part of the build fails, print the reason at once: the other part may continue for half an hour."""
    try:
        build_part()
    except LabError as error:
        print(f"lab: {error}\nlab: the other builds continue; `make build` will use them", file=sys.stderr)
        raise


def _build_images_and_environments() -> None:
    for framework in images.FRAMEWORKS:
        images.trainer_environment(framework)
        images.trainer_image(framework)


COMMANDS: dict[str, Callable[[argparse.Namespace], None]] = {
    "up": lambda given: up(given.mpijob, given.gitops),
    "status": lambda _: status(),
    "build": lambda _: build(),
    "images": lambda given: build_images(given.frameworks, given.only_build),
    "demo": lambda _: demo(),
    "bench": lambda _: bench(),
    "bench-demo": lambda _: bench_demo(),
}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m lab", description=__doc__)
    parser.add_argument("command", choices=COMMANDS)
    parser.add_argument("frameworks", nargs="*", help="for images: the frameworks, otherwise all")
    parser.add_argument("--only-build", action="store_true", help="for images: print and load nothing")
    parser.add_argument(
        "--mpijob", choices=[*operators.MPIJOB_VERSIONS, "none"], help="for up: the MPIJob to serve; none: no operators"
    )
    parser.add_argument("--gitops", choices=GITOPS, help="for up: the GitOps controllers that run beside the cluster")
    arguments = parser.parse_args()
    # If `kill` or a closed terminal interrupts a start, undo the start as after Ctrl-C.
    for number in namespaces.STOPPING:
        if signal.getsignal(number) is not signal.SIG_IGN:  # nohup and background jobs ignore some signals
            signal.signal(number, signal.default_int_handler)
    try:
        COMMANDS[arguments.command](arguments)
    except LabError as error:
        print(f"lab: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nlab: stopped; a cluster that was still starting is removed, a running one stays", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
