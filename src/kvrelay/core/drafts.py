"""A file that is there whole or not at all: made under another name beside its place, then renamed."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


@contextmanager
def drafted(path: Path) -> Iterator[Path]:
    """A name that nobody else has and no reader looks at, for what is to become ``path`` when the block ends.

    Makes the folder. Where the block raises, the draft is removed and the old file still stands.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.{uuid.uuid4().hex[:8]}.tmp")
    try:
        yield draft
        draft.replace(path)
    finally:
        with suppress(OSError):
            draft.unlink(missing_ok=True)
