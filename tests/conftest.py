"""What all tests share: the folder of real samples, and a Ctrl-C that is obeyed."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def samples() -> Path:
    """The folder of real samples, from ``KVRELAY_SAMPLES`` (relative to the repository's root); skips without it."""
    named = os.environ.get("KVRELAY_SAMPLES", "../shared/data")
    folder = (Path(__file__).parents[1] / named).resolve()
    if not folder.is_dir():
        pytest.skip(f"no real samples at {named}; set KVRELAY_SAMPLES to their folder")
    return folder


@pytest.fixture(autouse=True, scope="session")
def interruptible() -> Iterator[None]:
    """A shell that puts the tests into the background has them, and the processes that they start, ignore SIGINT."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)
