"""Which GPU a process takes, by what a scheduler may have put into its environment."""

from __future__ import annotations

import pytest

from kvrelay.backend.device import own_device


@pytest.mark.parametrize(
    ("device", "n_gpus", "environment", "wanted"),
    [
        ("cuda", 1, {"CUDA_VISIBLE_DEVICES": "3", "SLURM_LOCALID": "0"}, "cuda"),
        ("cuda", 4, {}, "cuda"),
        ("cuda", 4, {"SLURM_LOCALID": "0"}, "cuda:0"),
        ("cuda", 4, {"SLURM_LOCALID": "3"}, "cuda:3"),
        ("cuda", 2, {"SLURM_LOCALID": "3"}, "cuda:1"),
        ("cuda", 0, {"SLURM_LOCALID": "1"}, "cuda"),
        ("cuda", 4, {"SLURM_LOCALID": ""}, "cuda"),
        ("cuda:1", 4, {"SLURM_LOCALID": "3"}, "cuda:1"),
        ("auto", 4, {"SLURM_LOCALID": "3"}, "auto"),
        ("cpu", 4, {"SLURM_LOCALID": "3"}, "cpu"),
    ],
)
def test_a_process_takes_its_own_gpu(device: str, n_gpus: int, environment: dict[str, str], wanted: str) -> None:
    assert own_device(device, n_gpus, environment) == wanted
