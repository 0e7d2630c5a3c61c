"""Where a data set's files come from: a local file, a local folder, or the hub, whose libraries are imported late."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from data_adapters.links import own
from kvrelay.core.errors import AssetError

SHOWN_NAMES = 12
"""How many names of a folder or repository an error message lists."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """The files of one data set. ``setting`` is the config key of ``path``, as error messages name it."""

    setting: str
    path: str | None
    hub_id: str
    revision: str | None

    def file(self, names: Sequence[str]) -> Path:
        """The file at ``path``, the first of ``names`` in the folder at ``path``, or the first that the hub has.

        Raises `AssetError` where there is none, or where a name is found in two subfolders.
        """
        if self.path is None:
            return self._from_hub(names)
        local = Path(self.path).expanduser()
        if local.is_file():
            return local
        if local.is_dir():
            return self._in_folder(local, names)
        raise AssetError(
            f"{self.setting}={self.path}: no such file or folder; wanted {_listed(names)}. {self._advice()}"
        )

    def rows(self, split: str) -> list[dict[str, Any]]:
        """All records of one split, through the `datasets` library. Raises `AssetError` where they cannot be had."""
        try:
            from datasets import load_dataset

            return [dict(row) for row in load_dataset(self.hub_id, split=split, revision=self.revision)]
        except Exception as error:  # the library raises a dozen unrelated classes for "not there"
            raise self._unreachable(f"split {split!r}", error) from error

    def _in_folder(self, folder: Path, names: Sequence[str]) -> Path:
        for prefix in ("", "*/"):
            for name in names:
                found = sorted(file for file in folder.glob(prefix + name) if file.is_file())
                if len(found) > 1:
                    raise AssetError(
                        f"{self.setting}={folder}: {name} is there twice ({_listed(found)}); name one file"
                    )
                if found:
                    return own(found[0], folder)
        held = _listed(sorted(entry.name for entry in folder.iterdir()))
        raise AssetError(
            f"{self.setting}={folder}: none of {_listed(names)} is in this folder or one level below. It holds: {held}"
        )

    def _from_hub(self, names: Sequence[str]) -> Path:
        """Try the names in turn: two releases of one set call the same file differently.

        Once the hub is out of reach, the other names are looked for in the cache alone: a try costs half a minute.
        """
        reason: Exception | None = None
        try:
            from huggingface_hub import hf_hub_download
            from huggingface_hub.errors import EntryNotFoundError, LocalEntryNotFoundError

            fetch = partial(hf_hub_download, self.hub_id, repo_type="dataset", revision=self.revision)
            for name in names:
                away = isinstance(reason, LocalEntryNotFoundError)
                try:
                    return Path(fetch(filename=name, local_files_only=away))
                except EntryNotFoundError as error:
                    reason = reason if away else error
        except Exception as error:  # repository, revision, proxy, gate, no library: each its own class
            reason = error
        raise self._unreachable(_listed(names) + self._remote_names(reason), reason) from reason

    def _remote_names(self, reason: Exception | None) -> str:
        """What the repository does hold, where it answered but lacks the file; else nothing."""
        try:
            from huggingface_hub import HfApi
            from huggingface_hub.errors import RemoteEntryNotFoundError

            if not isinstance(reason, RemoteEntryNotFoundError):
                return ""
            held = HfApi().list_repo_files(self.hub_id, repo_type="dataset", revision=self.revision)
            return f" (the repository holds {_listed(held)})"
        except Exception:  # only the wording of another error hangs on this
            return ""

    def _unreachable(self, wanted: str, reason: Exception | None) -> AssetError:
        said = (str(reason).strip().splitlines() or [""])[0].rstrip(".")
        offline = os.environ.get("HF_HUB_OFFLINE", "").upper() in ("1", "ON", "YES", "TRUE")
        return AssetError(
            f"cannot get {wanted} of hub dataset {self.hub_id} (revision {self.revision or 'main'}): "
            f"{type(reason).__name__}: {said}. "
            f"{'HF_HUB_OFFLINE is set: only the local cache was searched. ' if offline else ''}{self._advice()}"
        )

    def _advice(self) -> str:
        return f"Place the file on this machine and set {self.setting}=<file or folder> (make: DATA=<file or folder>)."


def fingerprint(files: Sequence[Path]) -> str:
    """sha256 of one file's bytes, as its publishers print it; of several, sha256 over their digests in order."""
    digests = [_sha256(file) for file in files]
    return digests[0] if len(digests) == 1 else hashlib.sha256("\n".join(digests).encode()).hexdigest()


def _sha256(file: Path) -> str:
    try:
        with file.open("rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()
    except OSError as error:
        raise AssetError(f"{file}: cannot be read ({error.strerror})") from error


def _listed(names: Iterable[object]) -> str:
    shown = [str(name) for name in names]
    more = f" and {len(shown) - SHOWN_NAMES} more" if len(shown) > SHOWN_NAMES else ""
    return (", ".join(shown[:SHOWN_NAMES]) or "nothing") + more
