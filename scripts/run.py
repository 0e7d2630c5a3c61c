"""Run an experiment: answer, judge, report. ``--help`` lists the keys, their choices and examples."""

from __future__ import annotations

import logging
import os
import sys
from pathlib import Path

import hydra
from omegaconf import DictConfig, OmegaConf

# Before torch starts its threads: ones that spin while they wait make a busy machine several times slower.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

SCRIPTS = str(Path(__file__).resolve().parent)


@hydra.main(version_base=None, config_path="../conf", config_name="config")
def main(config: DictConfig) -> None:
    """One job."""
    # A job of a sweep unpickles this function elsewhere, where this folder is not on the path.
    sys.path.insert(0, SCRIPTS)
    from command import told
    from jobs import own_folder, told_in_files

    with told(), told_in_files(own_folder()):
        settings = OmegaConf.to_container(config, resolve=True)
        from offline import cut_off

        cut_off(settings)
        from compose import compose_run  # late: torch takes its time, and a misspelt key should not

        logging.basicConfig(level=logging.WARNING, format="%(message)s", stream=sys.stderr)
        for ours in ("kvrelay", "data_adapters", "judges"):
            logging.getLogger(ours).setLevel(logging.INFO)
        if status := compose_run(settings):
            sys.exit(status)


if __name__ == "__main__":
    from command import call

    call(main)
