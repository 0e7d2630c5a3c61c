"""``offline: true``: what would need a network is refused before anything is loaded, and no connection is let through.

Called before the libraries are imported that read their own switches at import (transformers, datasets, the hub's
client). This machine itself may be connected to: a judge's server on loopback is no network.
"""

from __future__ import annotations

import errno
import ipaddress
import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import yaml

from kvrelay.core.errors import AssetError, ConfigError

SWITCHES = ("HF_HUB_OFFLINE", "HF_DATASETS_OFFLINE", "TRANSFORMERS_OFFLINE", "HF_HUB_DISABLE_TELEMETRY")
LOCAL = ("package:", "seeded:", ".", "/", "~")
"""How a model's source begins that is no hub id."""
DATASETS = Path(__file__).resolve().parent.parent / "conf" / "dataset"
ASKING = frozenset({"socket.getaddrinfo", "socket.gethostbyname"})
CONNECTING = frozenset({"socket.connect", "socket.sendto", "socket.sendmsg"})
"""Events of Python's audit hooks; of the second kind the address stands behind the socket."""


def cut_off(config: Any) -> None:
    """Where the configuration says ``offline: true``, refuse what it cannot have, and guard this process's sockets.

    Raises `AssetError` for a model or data set that is on the hub and not in this machine's cache of it, `ConfigError`
    for a judge on another machine; each names the key.
    """
    if config.get("offline") is not True:
        return
    os.environ.update(dict.fromkeys(SWITCHES, "1"))
    for problem in _problems(config):
        raise problem
    sys.addaudithook(_guard)


def _problems(config: Mapping[str, Any]) -> Iterator[Exception]:
    for name, part in _parts(config, "model"):
        source = str(part.get("source", ""))
        if not source.startswith(LOCAL) and not Path(source).is_dir() and not _cached("models", source):
            yield _absent(f"model.{name}.source", source, "put the model into a local folder")
    for name, part in _parts(config, "dataset") if config.get("data") is None else ():
        hub_id = _hub_id(part)
        if hub_id and part.get("path", "") is None and not _cached("datasets", hub_id):
            yield _absent(f"dataset.{name}.path", f"null, which asks for {hub_id}", "name a local file or folder")
    for name, part in _parts(config, "judge") if "judge" in config.get("stages", ("judge",)) else ():
        url = part.get("base_url")
        if url is not None and not is_here(urlsplit(str(url)).hostname):
            yield ConfigError(
                f"offline = true, but judge.{name}.base_url is on another machine; start the judge's server on this "
                f"one, or leave the judge to a later run of its own (keys: offline, judge.{name}.base_url, stages)"
            )


def _parts(config: Mapping[str, Any], group: str) -> list[tuple[str, Mapping[str, Any]]]:
    return [(name, part) for name, part in (config.get(group) or {}).items() if isinstance(part, Mapping)]


def _hub_id(part: Mapping[str, Any]) -> str | None:
    """The hub id of a data set, its own or that of the set it is made from."""
    if part.get("hub_id") or not isinstance(part.get("source"), str):
        return part.get("hub_id")
    for file in DATASETS.glob("*.yaml"):
        if file.stem == part["source"]:
            return _hub_id(yaml.safe_load(file.read_text(encoding="utf-8"))[file.stem] | {"source": None})
    return None


def _cached(kind: str, hub_id: str) -> bool:
    """Whether the hub's cache on this machine holds files of a repository."""
    from huggingface_hub.constants import HF_HUB_CACHE

    return any((Path(HF_HUB_CACHE) / f"{kind}--{hub_id.replace('/', '--')}" / "snapshots").glob("*/*"))


def _absent(key: str, value: str, advice: str) -> AssetError:
    return AssetError(
        f"offline = true, but {key} = {value} is on the hub and not in this machine's cache of it; {advice} "
        f"(keys: offline, {key})"
    )


def is_here(host: Any) -> bool:
    """Whether a host is this machine: loopback, or none at all (a socket of the file system)."""
    text = host.decode("ascii", "replace") if isinstance(host, bytes) else str(host or "")
    try:
        return not text or ipaddress.ip_address(text.partition("%")[0]).is_loopback
    except ValueError:
        return text == "localhost"


def _guard(event: str, given: tuple[Any, ...]) -> None:
    if event in ASKING:
        host = given[0]
    elif event in CONNECTING and isinstance(given[1], tuple):  # a path is a socket of the file system
        host = given[1][0]
    else:
        return
    if not is_here(host):
        raise OSError(errno.ENETUNREACH, f"offline = true lets no connection to {host} through (key: offline)")
