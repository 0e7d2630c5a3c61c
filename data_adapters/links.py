"""Files of a data folder that are links: followed inside the folder, refused where they lead out of it."""

from __future__ import annotations

from pathlib import Path

from kvrelay.core.errors import AssetError


def own(file: Path, folder: Path) -> Path:
    """``file``, found in ``folder``. Raises `AssetError` for a link out of it: an unpacked archive may hold one to
    anything that this user can read. A folder of the hub's cache links to the blobs beside it, which are its own."""
    real, home = file.resolve(), folder.resolve()
    homes = [home, *(parent.parent / "blobs" for parent in (home, *home.parents) if parent.name == "snapshots")]
    if not any(real.is_relative_to(one) for one in homes):
        raise AssetError(
            f"{file} is a link to {real}, outside of {folder}; name that file itself if it is meant "
            "(key: dataset.*.path, or DATA= for make)"
        )
    return file
