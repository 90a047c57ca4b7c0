"""Write the values file of `init`, before `derive` completes it.

The comment on a key comes from the chart's values.yaml. If values.yaml has no comment on the key, the comment comes
from the description in the schema.
"""

from __future__ import annotations

import shlex
import textwrap
from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath
from typing import Any

from msgspec import Struct

from distrain.derive.models import describe
from distrain.init.images import trainers_name
from distrain.init.nodes import SuggestedNodes
from distrain.values import commented_yaml
from distrain.values.placeholder import REGISTRY
from distrain.workload.wording import counted

WIDTH = 110
SECRET = "s3-credentials"
VOLUME = "training-data"
# A run on random data only measures the speed, so STEPS steps are enough.
STEPS = 100


class Wish(Struct, frozen=True):
    """What the user wants to train. `data` and `image` may be empty, and `kind` may be `auto`."""

    framework: str
    strategy: str
    kind: str
    model: str
    gpus: int
    data: str
    image: str
    file: str


class Setting(Struct, frozen=True):
    """One value in the file; `change` tells the user what to fill in."""

    path: tuple[str, ...]
    value: Any
    change: str = ""


def text(wish: Wish, suggested: SuggestedNodes, chart: commented_yaml.Section, schema: Mapping[str, Any]) -> str:
    """Return the file's text; `chart` is the chart's values.yaml."""
    section = commented_yaml.Section(head=list(_head(wish)))
    for setting in _settings(wish, suggested):
        section.set(setting.path, setting.value)
        entry = section.find(setting.path)
        if entry:
            change = textwrap.wrap(f"CHANGE: {setting.change}", WIDTH) if setting.change else []
            entry.above = [*_comment(setting.path, chart, schema), *(f"# {line}" for line in change)]
    for entry in section.entries[1:]:
        entry.above.insert(0, "")
    return commented_yaml.text(section)


def _head(wish: Wish) -> Iterator[str]:
    size = counted(wish.gpus, "GPU") if wish.gpus else "CPUs"
    data = wish.data or "random data, to measure speed"
    yield f"# {wish.model} with {wish.framework} on {size}, on {data}. Made by `helm distrain init`."
    yield "#"
    if wish.data.startswith("s3://"):
        yield f"#   kubectl create secret generic {SECRET} \\"
        yield "#     --from-literal=AWS_ACCESS_KEY_ID=... --from-literal=AWS_SECRET_ACCESS_KEY=..."
    file = "".join(each if each.isprintable() else " " for each in shlex.quote(wish.file))
    yield f"#   helm distrain check -f {file}"
    yield f"#   helm distrain install run1 -f {file} --wait"
    yield "#"
    yield "# Change the lines marked CHANGE, and what else you like; docs/values.md lists every value. For another size"
    yield f"# change gpus, and keep what `helm distrain derive -f {file}` prints: the derived lines follow."


def _settings(wish: Wish, suggested: SuggestedNodes) -> Iterator[Setting]:
    yield Setting(("framework",), wish.framework)
    if wish.strategy != "allreduce":
        yield Setting(("strategy",), wish.strategy)
    if wish.kind != "auto":
        yield Setting(("job", "kind"), wish.kind)
    yield Setting(("gpus",), wish.gpus)
    if wish.gpus:
        yield Setting(("workers", "gpuResource"), suggested.gpu_resource)
        yield Setting(("workers", "tolerations"), list(suggested.tolerations))
    yield from _image(wish)
    yield from _trainer(wish)
    yield from _data(wish)


def _image(wish: Wish) -> Iterator[Setting]:
    if not wish.image:
        change = "the image in your registry, without its tag; docs/images.md says how to build it."
        yield Setting(("image", "repository"), REGISTRY + trainers_name(wish.framework, wish.gpus), change)
        return
    name, _, digest = wish.image.partition("@")
    tag = PurePosixPath(name).name.partition(":")[2]
    yield Setting(("image", "repository"), name.removesuffix(f":{tag}") if tag else name)
    if tag:
        yield Setting(("image", "tag"), tag)
    if digest:
        yield Setting(("image", "digest"), digest)


def _trainer(wish: Wish) -> Iterator[Setting]:
    model = describe(wish.model)
    usual = model.training
    yield Setting(("trainer", "model"), wish.model)
    yield Setting(("trainer", "batchSize"), usual.batch_size)
    length = ("epochs", usual.epochs) if wish.data else ("steps", STEPS)
    yield Setting(("trainer", length[0]), length[1])
    if wish.gpus and usual.precision != "fp32":
        yield Setting(("trainer", "precision"), usual.precision)
    yield Setting(("trainer", "learningRate"), usual.learning_rate)
    if wish.data and usual.warmup:
        yield Setting(("trainer", "warmup"), usual.warmup)
    if wish.data and model.smallest is None:
        # Photographs have different sizes, so the trainer scales the shorter side and crops the longer side.
        yield Setting(("trainer", "extraArgs"), [f"--image-size={model.shape[0]}"])


def _data(wish: Wish) -> Iterator[Setting]:
    if not wish.data:
        yield Setting(("data", "uri"), "")
    elif wish.data.startswith("s3://"):
        yield Setting(("data", "uri"), wish.data)
        yield Setting(("output", "uri"), "", "where model, log and results are to go, such as s3://bucket/runs.")
        yield Setting(("s3", "endpoint"), "", "the URL of your S3 server, if it is not AWS.")
        yield Setting(("s3", "secretName"), SECRET)
    else:
        change = "the claim that holds the data, in the namespace of the job."
        yield Setting(("volumes",), [{"name": "data", "persistentVolumeClaim": {"claimName": VOLUME}}], change)
        yield Setting(("volumeMounts",), [{"name": "data", "mountPath": wish.data}])
        yield Setting(("data", "uri"), wish.data)


def _comment(path: tuple[str, ...], chart: commented_yaml.Section, schema: Mapping[str, Any]) -> list[str]:
    entry = chart.find(path)
    above = [line for line in entry.above if line.startswith("#")] if entry else []
    if above:
        return above
    described: Mapping[str, Any] = schema
    for key in path:
        described = described.get("properties", {}).get(key, {})
    return [f"# {line}" for line in textwrap.wrap(str(described.get("description", "")), WIDTH)]
