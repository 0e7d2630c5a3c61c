"""Run an experiment: answer, judge, report.

python scripts/run.py experiment=table1                              the laptop profile
python scripts/run.py experiment=table1 profile=paper                the published setting
python scripts/run.py experiment=table1 data=records.json out=mine   your own records
python scripts/run.py experiment=table1 dry_run=true                 the plan, nothing is run
python scripts/run.py -m experiment=table1 selector=bm25,snapkv      one job a selector
"""

from __future__ import annotations

import logging
import os
import signal
import sys
from pathlib import Path
from typing import Any

import hydra
from omegaconf import DictConfig, OmegaConf

# Before torch starts its threads: ones that spin while they wait make a busy machine several times slower.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

from kvrelay.core.errors import KVRelayError

INTERRUPTED = 130
SCRIPTS = str(Path(__file__).resolve().parent)


@hydra.main(version_base=None, config_path="../conf", config_name="config")
def main(config: DictConfig) -> None:
    """One job."""
    # A job of a sweep unpickles this function elsewhere, where this folder is not on the path.
    sys.path.insert(0, SCRIPTS)
    from compose import compose_run

    logging.basicConfig(level=logging.WARNING, format="%(message)s", stream=sys.stderr)
    for ours in ("kvrelay", "data_adapters", "judges"):
        logging.getLogger(ours).setLevel(logging.INFO)
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        status = compose_run(OmegaConf.to_container(config, resolve=True))
    except KVRelayError as error:
        sys.stderr.write(f"\n{type(error).__name__}: {error}\n")
        status = error.exit_code
    except KeyboardInterrupt:
        sys.stderr.write("\ninterrupted; what is finished is kept, and the same command goes on from there\n")
        status = INTERRUPTED
    if status:
        sys.exit(status)


def _interrupt(*_: Any) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    main()
