"""The launchers' settings, in Hydra's store. Annotations stand evaluated here, not as text: Hydra's scan of the plugins
runs a module before Python knows it by name, where a dataclass cannot look text up.
"""

from dataclasses import dataclass

from hydra.core.config_store import ConfigStore
from hydra_plugins.hydra_submitit_launcher.config import SlurmQueueConf


@dataclass
class LocalSweepConf:
    """Settings of `LocalSweep`: there are none."""

    _target_: str = "hydra_plugins.kvrelay_sweeps.local.LocalSweep"


@dataclass
class SlurmSweepConf(SlurmQueueConf):
    """The submitit launcher's settings, and how often the queue is asked at least."""

    _target_: str = "hydra_plugins.kvrelay_sweeps.slurm.SlurmSweep"
    poll_s: int = 30


for _name, _conf in {"kvrelay_local": LocalSweepConf, "kvrelay_slurm": SlurmSweepConf}.items():
    ConfigStore.instance().store(group="hydra/launcher", name=_name, node=_conf(), provider="kvrelay_sweeps")
