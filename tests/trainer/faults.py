"""What happens to a run's requests to S3, all along."""

from __future__ import annotations

from lab.s3.proxy import Fault

FAULTS: dict[str, dict[str, Fault]] = {
    "cut": {"Every": 5, "Cut": 500},
    "reset": {"Every": 4, "Reset": True},
    "lost-answer": {"Every": 5, "Lose": True},
    "stall": {"Every": 50, "Times": 3, "Stall": 500},
    "slow-down": {"Every": 2, "Status": 503, "Code": "SlowDown"},
    "wrong-tag": {"Every": 3, "WrongETag": True},
    "delay-and-rate": {"Delay": 0.02, "Rate": 5_000_000},
}
