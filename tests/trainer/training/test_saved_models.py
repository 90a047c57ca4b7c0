"""docs/training.md shows code that loads the model of a run without the trainer.

Test this code in the images of the frameworks.
"""

from __future__ import annotations

import re
import textwrap
from pathlib import Path

import pytest

from lab.paths import REPOSITORY
from tests.trainer.conftest import ProgramInImage, Run, run_in_image

PAGE = (REPOSITORY / "docs" / "training.md").read_text(encoding="utf-8")
TITLES = {"tensorflow-horovod": "TensorFlow", "pytorch-ddp": "PyTorch", "mxnet-horovod": "MXNet"}
# Code that runs first. It sets two variables: `images`, in the framework's layout, and `expected`, the logits that the
# model in the framework's own file computes from them.
BEFORE = {
    "tensorflow": """
import os
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "2"
import numpy as np, tensorflow as tf
images = np.random.default_rng(1).random((2, 224, 224, 3), np.float32)
expected = tf.keras.models.load_model("model.keras")(images, training=False)
""",
    "pytorch": """
import numpy as np, torch
from my_models import net
images = torch.from_numpy(np.random.default_rng(1).random((2, 3, 224, 224), np.float32))
trained = net((224, 224, 3), 1000)
trained.load_state_dict(torch.load("model.pt"))
expected = trained(images)
""",
    "mxnet": """
import mxnet as mx, numpy as np
from my_models import net
images = mx.nd.array(np.random.default_rng(1).random((2, 3, 224, 224), np.float32))
trained = net((224, 224, 3), 1000)
trained.load_parameters("model.params")
expected = trained(images)
""",
}
AFTER = """
def on_host(array):
    array = array.detach() if hasattr(array, "detach") else array
    return array.asnumpy() if hasattr(array, "asnumpy") else array.numpy()

logits, expected = on_host(logits), on_host(expected)
print(logits.shape, np.abs(logits - expected).max() <= 1e-5 * np.abs(expected).max() > 0)
"""


def code_of(section: str, title: str) -> str:
    """Return the code block after the paragraph that begins with `title`, the name of a framework."""
    text = PAGE.partition(f"\n### {section}\n")[2].partition("\n### ")[0]
    (code,) = re.findall(rf"^{title}(?:.+\n)+\n((?:    .*\n|\n)+)", text, flags=re.MULTILINE)
    return textwrap.dedent(code)


def load(framework: str, title: str, folder: Path) -> Run:
    """Run the page's code in the output folder of a run.

    Compare the logits of the loaded model with those of the model in the framework's own file.
    """
    (folder / "load.py").write_text(BEFORE[framework] + code_of("Load the model elsewhere", title) + AFTER)
    command = ["sh", "-c", "cd /out && exec python3 load.py"]
    return run_in_image(framework, command, folder, env={"PYTHONPATH": "/out"}, mounts={folder: "/out"}, timeout=240)


@pytest.mark.parametrize("name", TITLES)
def test_lines_of_the_page_load_the_model(name: str, digits: Path, tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    (tmp_path / "my_models.py").write_text(code_of("Your own", TITLES[name]))
    program = ProgramInImage.named(name, digits)

    arguments = ("--model=my_models:net", "--steps=1", "--batch-size=2", "--output=/out")
    run = program(*arguments, ranks=1, env={"PYTHONPATH": "/out"}, mounts={tmp_path: "/out"})
    loaded = load(program.program.framework, TITLES[name], tmp_path)

    assert (run.returncode, run.stderr) == (0, "")
    assert loaded.stdout == "(2, 1000) True\n", loaded.stderr


@pytest.mark.full
def test_lines_of_the_page_load_an_included_model(digits: Path, tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    program = ProgramInImage.named("pytorch-ddp", digits)
    code = code_of("Load the model elsewhere", "For an included model")
    compared = (
        'import torch\nstored = torch.load("model.pt")\nprint(logits.shape, stored.keys() == model.state_dict().keys())'
    )
    before = "import torch\nimages = torch.rand(2, 3, 224, 224)\n"
    (tmp_path / "load.py").write_text(f"{before}{code}{compared}")

    run = program(
        "--model=resnet50", "--steps=1", "--batch-size=2", "--output=/out", ranks=1, mounts={tmp_path: "/out"}
    )
    command = ["sh", "-c", "cd /out && exec python3 load.py"]
    loaded = run_in_image("pytorch", command, tmp_path, env=None, mounts={tmp_path: "/out"}, timeout=240)

    assert run.returncode == 0, run.stderr
    assert loaded.stdout == "torch.Size([2, 1000]) True\n", loaded.stderr
