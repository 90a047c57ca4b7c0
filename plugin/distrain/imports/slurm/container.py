"""Convert what surrounds the program in a Slurm batch script: its container's image, its variables, numactl."""

from __future__ import annotations

import re

from distrain.imports.draft import Draft
from distrain.imports.jobs.image import set_image
from distrain.imports.launch.wrappers import PLAIN, Wrapper
from distrain.imports.secrets import quoting
from distrain.values.placeholder import IMAGE

NO_IMAGE = "it is no image of a registry; push it to one (docs/images.md says how), and name it in image.repository"
# Container programs that take their image from a registry.
OF_REGISTRIES = {"docker", "podman", "podman-hpc", "nerdctl"}
VARIABLES, GPUS = {"env", "e", "set-env"}, {"nv", "nvccli", "rocm", "gpus"}
MOUNTS = {"B", "bind", "b", "mount", "v", "volume", "V", "M"}
FOLDERS = {"pwd", "cwd", "cd", "w"}


def carry_wrapper(draft: Draft, wrapper: Wrapper, shown: str, place: str) -> None:
    """Convert the variables or the container image of a wrapper (env, singularity and the like).

    List the rest of the wrapper as left out. `shown` is the wrapper's text for messages.
    """
    if wrapper.is_container:
        _carry_container(draft, wrapper, place)
    elif wrapper.name == "env":
        for word in wrapper.arguments:
            carry_variable(draft, word, f"{place}: env {quoting.key(word.partition('=')[0])}")
    elif why := PLAIN[wrapper.name].why:
        draft.drop(f"{place}: {shown}", why)


def carry_variable(draft: Draft, word: str, place: str) -> None:
    """Add NAME=VALUE to env, or list it as left out if the value is computed from other variables.

    If a name is set several times, the last value is used.
    """
    name, sign, value = word.partition("=")
    if not sign or re.search(r"[$`]", value):
        draft.drop(place, "its value follows from others; set it in env, or in the program")
        return
    entry = draft.credentials.env({"name": name, "value": value})
    names = [each.get("name") for each in draft.value(("env",), [])]
    if name in names:
        draft.value(("env",))[names.index(name)] = entry
    else:
        draft.append(("env",), [entry], place)


def carry_image(draft: Draft, name: str, place: str) -> None:
    """Set the image if it comes from a registry and is the first image in the script; otherwise list it as left out."""
    plain = re.sub(r"^(?:docker|dockerd)://|^docker:", "", name).replace("#", "/")
    if re.search(r"[$`]|://|^[/.~]|\.(?:sif|simg|sqsh|img|tar)$", plain):
        draft.drop(f"{place}: {quoting.value(name)}", NO_IMAGE)
    elif draft.has(("image", "repository")):
        draft.drop(f"{place}: {quoting.value(name)}", "all pods have one image; image.repository names it")
    else:
        set_image(draft, plain, ("container-image",))
        for target, setting in draft.settings.items():
            if target[0] == "image":
                setting.origins = (place,)


def without_image(draft: Draft) -> None:
    """If the script names no image, set a placeholder as image.repository.

    `helm distrain check` refuses the placeholder.
    """
    if not draft.has(("image", "repository")):
        draft.choose(("image", "repository"), IMAGE, "a Slurm job has no image")
        draft.note("image.repository: a Slurm job has no image; name one with the program, and what the modules bring")


def _carry_container(draft: Draft, wrapper: Wrapper, place: str) -> None:
    options = [(name, value) for name, value in wrapper.options if name not in ("image", "i") or wrapper.arguments]
    images = wrapper.arguments or tuple(value for name, value in wrapper.options if name in ("image", "i"))
    for image in images:
        is_reference = wrapper.name in OF_REGISTRIES or re.match("docker:", image)
        if is_reference:
            carry_image(draft, image, f"{place}: {wrapper.name}")
        else:
            draft.drop(f"{place}: {wrapper.name}: {quoting.value(image)}", NO_IMAGE)
    for name, value in options:
        flag = f"{place}: {wrapper.name} {'-' * (1 + (len(name) > 1))}{quoting.key(name)}"
        if name in VARIABLES:
            for word in value.split(",") if wrapper.name in ("singularity", "apptainer") else [value]:
                carry_variable(draft, word, f"{flag} {quoting.key(word.partition('=')[0])}")
        elif name in MOUNTS or (name == "m" and wrapper.name == "enroot"):
            draft.drop(f"{flag} {quoting.value(value)}", "set volumes and volumeMounts")
        elif name in FOLDERS or (name == "workdir" and wrapper.name in OF_REGISTRIES):
            draft.drop(f"{flag} {quoting.value(value)}", "begin command with it: bash -c 'cd DIR && exec PROGRAM'")
        elif name not in GPUS:
            draft.drop(flag, f"distrain starts no {wrapper.name}; set what the pods need of it in workers")
