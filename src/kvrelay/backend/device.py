"""On which device a process works: what the configuration says, read together with what the scheduler gave it."""

from __future__ import annotations

import os
from collections.abc import Mapping

LOCAL_RANK = "SLURM_LOCALID"
"""SLURM's number of a task among those of its job on the same node, from 0; 0 in a job of one task."""


def own_device(device: str, n_gpus: int, environment: Mapping[str, str] = os.environ) -> str:
    """The device for ``cuda``: of the GPUs that this process sees, the one whose turn it is by ``SLURM_LOCALID``.

    Which GPUs are seen is the scheduler's choice (``CUDA_VISIBLE_DEVICES``), and torch numbers those from 0: several
    jobs on a node see a GPU each and need no further choice; several tasks of one job see all of them and take turns.
    ``cuda:N`` is meant literally, and ``auto`` spreads a model over all GPUs that are seen.
    """
    rank = environment.get(LOCAL_RANK, "")
    if device != "cuda" or n_gpus < 2 or not rank.isdecimal():
        return device
    return f"cuda:{int(rank) % n_gpus}"
