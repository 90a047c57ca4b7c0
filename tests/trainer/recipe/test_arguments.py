"""Test that wrong recipe values, and values that do not fit the run, are refused with an error that names the value."""

from __future__ import annotations

import pytest

from distrain_trainer.config import parse
from distrain_trainer.errors import ArgumentError

DATA = "--epochs 9 --data /d"
SERVERS = f"{DATA} --framework mxnet --strategy parameter-server"


@pytest.mark.parametrize(
    ("refused", "message", "accepted"),
    [
        pytest.param(
            f"{DATA} --decay-factor 0", r"decayFactor: 0\.0 is no factor", f"{DATA} --decay-factor 1", id="no"
        ),
        pytest.param(
            f"{DATA} --weight-decay 1.1", r"weightDecay: 1\.1 is above 1; give", f"{DATA} --weight-decay 1", id="wd"
        ),
        pytest.param(
            f"{DATA} --label-smoothing 1",
            r"labelSmoothing: 1\.0 is not below 1; give a number from 0 to below 1",
            f"{DATA} --label-smoothing 0",
            id="smoothing",
        ),
        pytest.param(f"{DATA} --ema nan", r"ema: nan is not below 1", f"{DATA} --ema 0.999", id="ema"),
        pytest.param(
            f"{DATA} --warmup 1 --warmup-epochs 2",
            r"warmupEpochs: 2 epochs, and trainer\.warmup 1 steps; set one of the two",
            f"{DATA} --warmup-epochs 2",
            id="two-warm-ups",
        ),
        pytest.param(f"{DATA} --warmup-epochs inf", "warmupEpochs: inf is no number", DATA, id="endless-warm-up"),
        pytest.param(
            f"{DATA} --schedule step",
            r"milestones: none, but trainer\.schedule is step; set milestones, such as 30,60,80, only together with",
            f"{DATA} --schedule step --milestones 1",
            id="no-milestones",
        ),
        pytest.param(
            f"{DATA} --milestones 1",
            r"milestones: 1, but trainer\.schedule is constant",
            f"{DATA} --schedule constant",
            id="milestones-of-no-schedule",
        ),
        pytest.param(
            f"{DATA} --schedule step --milestones 60,30",
            r"milestones: 60,30 are not ascending epochs above 0; correct them",
            f"{DATA} --schedule step --milestones 30,60",
            id="falling-milestones",
        ),
        pytest.param(
            f"{DATA} --milestones a,b", r"milestones: 'a,b' is no list of numbers, such as 30,60", DATA, id="no-numbers"
        ),
        pytest.param(
            "--steps 9 --evaluate-every 1",
            r"evaluateEvery: is in epochs, and synthetic data has none; set data\.uri, or remove trainer\.evaluate",
            "--steps 9 --schedule cosine",
            id="epochs-of-synthetic-data",
        ),
        pytest.param(f"{DATA} --evaluate-every 0", "evaluateEvery: 0 is below 1", f"{DATA} --evaluate-every 1", id="0"),
        pytest.param(
            f"{SERVERS} --optimizer lamb",
            r"optimizer: lamb needs the norm of each whole weight, but each parameter server holds only a part",
            f"{DATA} --optimizer lamb",
            id="lamb-on-servers",
        ),
        pytest.param(
            f"{SERVERS} --ema 0.9",
            r"ema: 0\.9 needs all workers at the same step, but with parameter servers the workers are at different",
            f"{SERVERS} --weight-decay 0.1 --label-smoothing 0.1 --schedule cosine",
            id="ema-on-servers",
        ),
        pytest.param(
            f"{DATA} --image-size 8 --augment-scale 0,1",
            r"augment\.scale: is 0,1, but must be the smallest and the largest share of an image's area; give",
            f"{DATA} --image-size 8 --augment-scale 0.1,1",
            id="no-share",
        ),
        pytest.param(
            f"{DATA} --augment-scale 0.08,1",
            r"augment\.scale: 0\.08,1 needs the size to which images are scaled; add --image-size=224 or another to ",
            f"{DATA} --augment-scale 0.08,1 --image-size 8",
            id="scale-without-a-size",
        ),
        pytest.param(
            f"{DATA} --image-size 8 --augment-ratio 1,2",
            r"augment\.ratio: is 1,2, but must be two ascending numbers above 0, and needs trainer\.augment",
            f"{DATA} --image-size 8 --augment-ratio 1,2 --augment-scale 1,1",
            id="ratio-without-a-scale",
        ),
        pytest.param(
            f"{DATA} --augment-mean 0.5",
            r"augment\.mean: 0\.5, with trainer\.augment\.std none; give equally many numbers for both",
            f"{DATA} --augment-mean 0.5 --augment-std 0.5",
            id="mean-alone",
        ),
        pytest.param(
            f"{DATA} --augment-mean 0.5 --augment-std 0", r"augment\.mean: 0\.5, with .*\.std 0;", DATA, id="std-of-0"
        ),
        pytest.param(
            f"{DATA} --image-size 224 --augment-test-resize 200",
            r"augment\.testResize: 200 is below --image-size=224, the size of the part that is cut out .*; give 224",
            f"{DATA} --image-size 224 --augment-test-resize 256",
            id="resize-below-the-size",
        ),
    ],
)
def test_recipe_that_does_not_fit_is_refused_by_its_value(refused: str, message: str, accepted: str) -> None:
    with pytest.raises(ArgumentError, match=rf"^trainer\.{message}"):
        parse(refused.split())
    parse(accepted.split())
