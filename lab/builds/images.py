"""Build the lab's container images on this machine, without a container registry.

buildah builds a framework's image from trainer/<framework>.Dockerfile. The base image is a Debian root file system.
mmdebstrap makes it from the host's apt sources. The cache stores every image as a docker archive. The archive's name
contains a hash of all files from which the image is built. If the archive exists, the image is not built again.

In the build, pip trusts the CA certificates that this machine trusts, or those of the bundle that PIP_CERT names.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import yaml

from lab.builds import buildah, debian, docker_archive
from lab.builds.containers import run_in_image
from lab.errors import LabError
from lab.locking import locked
from lab.paths import CACHE_DIR, CHART, REPOSITORY

# The chart's default image tag is its appVersion.
VERSION = yaml.safe_load((CHART / "Chart.yaml").read_text())["appVersion"]
# The trainer's images are built from the files of CONTEXT. Only the last layers contain the packages of CODE.
CONTEXT = (".dockerignore", "LICENSE", "plugin/requirements.txt", "plugin/distrain", "trainer")
CODE = ("plugin/distrain", "trainer/distrain_trainer")
# The CA certificates that a Debian machine trusts, also those of a proxy that re-signs TLS in the machine's network.
TRUSTED = Path("/etc/ssl/certs/ca-certificates.crt")
# An image has this label, which contains the versions of its Debian packages. The Dockerfiles do not pin these
# versions, so the label records them.
DEBIAN_PACKAGES = "distrain.debian-packages"
FRAMEWORKS = ("tensorflow", "pytorch", "mxnet")
ARCHIVES = CACHE_DIR / "images"
LOGS = CACHE_DIR / "logs"
# buildah prints this if a file in a layer has changed since the layer was built.
CHANGED_LAYER = "file integrity checksum failed"

BASE_DOCKERFILE = """\
FROM scratch
ADD root.tar /
ENV PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
"""


@dataclass(frozen=True)
class Image:
    """A container image: the reference that pods use, and the docker archive."""

    reference: str
    archive: Path


def trainer_image(framework: str) -> Image:
    """Return a framework's image.

    Build a framework's image if it is not in the cache. The first build takes about 8 minutes.

    Raises LabError if a tool is missing or the build fails.
    """
    return _built(framework, _trainer_key(framework), partial(_build_labelled, framework))


@contextmanager
def built_meanwhile(framework: str) -> Iterator[None]:
    """Build a framework's image in another process while the block runs. If the block fails, end that process.

    Raises LabError if the build fails.
    """
    command = ["setpriv", "--pdeathsig", "TERM", sys.executable, "-m", "lab", "images", framework, "--only-build"]
    with subprocess.Popen(command, cwd=REPOSITORY, stdin=subprocess.DEVNULL) as process:
        try:
            yield
        except BaseException:
            process.terminate()
            raise
    if process.returncode != 0:
        raise LabError("the trainer's image was not built; the lines above say why")


def image_from(name: str, dockerfile: Path) -> Image:
    """Return the image of a Dockerfile that copies no files.

    If the image is not in the cache, build it on the Debian root file system.

    Raises LabError in the same cases as trainer_image.
    """
    return _built(name, _key([_base_key(), dockerfile.read_bytes()]), partial(_build, name, dockerfile))


def image_on(name: str, dockerfile: Path, framework: str) -> Image:
    """Return the image of a Dockerfile.

    Its argument ENVIRONMENT gets the name of a framework's image without distrain's code. Raises LabError in the same
    cases as trainer_image.
    """
    environment = trainer_environment(framework)
    build = partial(_build, name, dockerfile)
    options = ("--build-arg", f"ENVIRONMENT={environment}", *_secrets())
    key = _key([environment, dockerfile.read_bytes()])
    return _built(name, key, lambda reference, *more: build(reference, *options, *more))


def trainer_environment(framework: str) -> str:
    """Return the name of a framework's image without distrain's code.

    trainer.py mounts the code of the working tree into this image.

    Raises LabError in the same cases as trainer_image.
    """
    reference = f"localhost/distrain-{framework}:{_trainer_key(framework, without=CODE)}"
    if not buildah.is_in_store(reference):
        with _lock():
            print(f"building the image {reference}, once", flush=True)
            _build_trainer(framework, reference, "--target", "environment")
    return reference


def scratch_image(reference: str, files: Mapping[str, Path], entrypoint: list[str]) -> Image:
    """Return an image that contains only these files: path in the image -> path on this machine."""
    contents = {path.lstrip("/"): source.read_bytes() for path, source in sorted(files.items())}
    key = _key([reference, json.dumps(entrypoint), *(part for item in contents.items() for part in item)])
    return _build_once(reference, key, lambda archive: docker_archive.write(archive, reference, contents, entrypoint))


def _built(name: str, key: str, build: Callable[..., None]) -> Image:
    """Return an image.

    `build` builds the image with buildah. `build` is called with the image's reference, and with options for `buildah
    bud`.
    """
    reference = f"docker.io/distrain/{name}:{VERSION}"
    return _build_once(reference, key, lambda archive: _build_and_push(name, reference, archive, build))


def _build_once(reference: str, key: str, build: Callable[[Path], None]) -> Image:
    """Return the image from the cache.

    If the archive does not exist, `build` writes it under a temporary name, and the finished archive is renamed.
    """
    name = reference.rpartition("/")[2].partition(":")[0]
    archive = ARCHIVES / f"{name}-{key}.tar"
    if archive.exists():
        return Image(reference, archive)
    with _lock():
        if not archive.exists():
            started = time.monotonic()
            print(f"building the image {reference}, once", flush=True)
            unfinished = ARCHIVES / f"{name}.part"
            unfinished.unlink(missing_ok=True)
            build(unfinished)
            unfinished.rename(archive)
            print(f"built {reference} in {time.monotonic() - started:.0f} s", flush=True)
            _remove_old(name)
    return Image(reference, archive)


def _lock() -> AbstractContextManager[None]:
    """Let only one process build at a time.

    Otherwise two processes would write the same archive, and remove each other's containers.
    """
    return locked(ARCHIVES / "lock")


def _remove_old(name: str, keep: int = 2) -> None:
    """Remove old archives of an image: each change of the trainer's code adds an archive of over a gigabyte."""
    pattern = re.compile(re.escape(name) + r"-[0-9a-f]{16}\.tar")
    archives = [path for path in ARCHIVES.iterdir() if pattern.fullmatch(path.name)]
    for path in sorted(archives, key=lambda path: path.stat().st_mtime, reverse=True)[keep:]:
        path.unlink()


def _build_labelled(framework: str, reference: str, *options: str) -> None:
    """Build a framework's image.

    A label with the versions of the Debian packages is added as the last layer. The other layers come from buildah's
    cache.
    """
    _build_trainer(framework, reference, *options)
    listing = run_in_image(reference, ["dpkg-query", "--show", "--showformat", "${Package}=${Version} "])
    if listing.returncode != 0:
        raise LabError(f"{reference}: dpkg-query does not list its Debian packages: {listing.stderr.strip()}")
    label = f"{DEBIAN_PACKAGES}={listing.stdout.strip()}"
    _build(f"{framework}-label", _dockerfile(framework), reference, "--label", label)


def _build_trainer(framework: str, reference: str, *options: str) -> None:
    print(f"about 8 minutes the first time; log: {LOGS / framework}.log", flush=True)
    _build(framework, _dockerfile(framework), reference, *_secrets(), *options)


def _secrets() -> tuple[str, ...]:
    """Return the options that pass a CA bundle to the build: the one that PIP_CERT names, or else the machine's own."""
    bundle = os.environ.get("PIP_CERT") or (TRUSTED if TRUSTED.exists() else None)
    return ("--secret", f"id=ca-bundle,src={bundle}") if bundle else ()


def _build(name: str, dockerfile: Path, reference: str, *options: str) -> None:
    """Build an image from a Dockerfile, on the Debian root file system and with the repository as context."""
    buildah.remove_containers()
    how = ["--isolation", "chroot", "--layers", "--force-rm", "--build-arg", f"BASE_IMAGE={_base_image()}"]
    which = ["--tag", reference, "--file", str(dockerfile), str(REPOSITORY)]
    _logged(name, buildah.command("bud", *how, *options, *which))


def _build_and_push(name: str, reference: str, archive: Path, build: Callable[..., None]) -> None:
    """Build an image and write its archive.

    Security software on a host may add its CA certificate to every certificate bundle, even in the layers that buildah
    has stored. Then buildah can build on such a changed layer, but fails to push the image. If a layer has changed, all
    layers are built again.
    """
    build(reference)
    try:
        _push(name, reference, archive)
    except LabError as error:
        if CHANGED_LAYER not in str(error):
            raise
        print(f"a layer of {reference} has changed since it was built; building all layers again", flush=True)
        build(reference, "--no-cache")
        _push(name, reference, archive)


def _push(name: str, reference: str, archive: Path) -> None:
    _logged(f"{name}-archive", buildah.command("push", "--quiet", reference, f"docker-archive:{archive}:{reference}"))


def _base_image() -> str:
    """Return the name of the Debian root in buildah's store. Create the root with mmdebstrap if it is missing."""
    reference = f"localhost/distrain-base:{_base_key()}"
    if buildah.is_in_store(reference):
        return reference
    with tempfile.TemporaryDirectory(dir=CACHE_DIR) as context:
        Path(context, "Dockerfile").write_text(BASE_DOCKERFILE)
        sources = [str(source) for source in debian.sources()]
        options = [*debian.MMDEBSTRAP_OPTIONS, debian.DEBIAN, f"{context}/root.tar", *sources]
        _logged("debian", [buildah.tool("mmdebstrap"), *options], progress="Debian root from the host's apt sources")
        _logged("debian-image", buildah.command("bud", "--isolation", "chroot", "--tag", reference, context))
    return reference


def _dockerfile(framework: str) -> Path:
    return REPOSITORY / "trainer" / f"{framework}.Dockerfile"


def _base_key() -> str:
    sources = [source.read_bytes() for source in debian.sources()]
    return _key([debian.DEBIAN, BASE_DOCKERFILE, *debian.MMDEBSTRAP_OPTIONS, *sources])


def _trainer_key(framework: str, without: Sequence[str] = ()) -> str:
    """Hash all files from which a framework's image is built, except for files in the folders `without`."""
    if not _dockerfile(framework).exists():
        raise LabError(f"{_dockerfile(framework)}: no such file, so there is no image for the framework {framework}")
    parts: list[str | bytes] = [_base_key()]
    for path in _context_files():
        name = str(path.relative_to(REPOSITORY))
        if not _is_of_another(path, framework) and not any(name.startswith(f"{folder}/") for folder in without):
            parts += [name, path.read_bytes()]
    return _key(parts)


def _is_of_another(path: Path, framework: str) -> bool:
    """Return whether a file belongs only to the images of other frameworks.

    Such a file's name starts with the name of its framework. `framework` is a framework or a variant of one, such as
    pytorch-cuda. The files of the framework also belong to the variant.
    """
    others = tuple(name for name in FRAMEWORKS if not framework.startswith(name))
    return "distrain_trainer" not in path.parts and path.name.startswith(others)


def _context_files() -> list[Path]:
    roots = [REPOSITORY / name for name in CONTEXT]
    found = [path for root in roots for path in ([root] if root.is_file() else sorted(root.rglob("*")))]
    return [path for path in found if path.is_file() and "__pycache__" not in path.parts]


def _key(parts: Iterable[str | bytes]) -> str:
    digest = hashlib.sha256()
    for part in parts:
        content = part.encode() if isinstance(part, str) else part
        digest.update(len(content).to_bytes(8, "big") + content)
    return digest.hexdigest()[:16]


def _logged(name: str, command: Sequence[str], progress: str | None = None) -> None:
    """Run a command, write its output to the log <name>.log, and print its build steps with their durations."""
    LOGS.mkdir(parents=True, exist_ok=True)
    started = time.monotonic()

    def show(step: str) -> None:
        print(f"{time.monotonic() - started:6.0f} s  {step[:100]}", flush=True)

    if progress:
        show(progress)
    log_file = LOGS / f"{name}.log"
    with (
        log_file.open("w", errors="replace") as log,
        subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        ) as process,
    ):
        assert process.stdout is not None
        try:
            for line in process.stdout:
                log.write(line)
                if re.match(r"(\[\d+/\d+\] )?STEP ", line):
                    show(line.rstrip())
        except BaseException:
            process.kill()
            raise
    if process.returncode != 0:
        tail = "\n".join(log_file.read_text(errors="replace").splitlines()[-20:])
        raise LabError(f"building {name} failed (exit code {process.returncode}); the whole log is {log_file}:\n{tail}")
