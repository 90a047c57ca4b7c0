"""Run in PyTorch's image: two ranks start, and start again with one later than the other, in one store.

Prints, per start and rank, whether it finds what a rank of the first start has left.
"""

from __future__ import annotations

import threading
import time

import torch.distributed as dist

from distrain_trainer.pytorch_ddp import store_of_this_start

RANKS = 2


def main() -> None:
    server = dist.TCPStore("127.0.0.1", 0, is_master=True)
    for start in range(2):
        ranks = [threading.Thread(target=join, args=(server.port, start, rank)) for rank in range(RANKS)]
        for rank in ranks:
            rank.start()
            time.sleep(1)  # The last rank of a start comes when the others have looked for it.
        for rank in ranks:
            rank.join()


def join(port: int, start: int, rank: int) -> None:
    store = store_of_this_start(dist.TCPStore("127.0.0.1", port, is_master=False), rank, RANKS)
    print(f"start {start}, rank {rank}: {store.check(['address'])}", flush=True)
    store.set(f"here/{rank}", "")
    store.get(f"here/{1 - rank}")  # Waits for the other one, in the same part.
    store.set("address", "of a rank")


main()
