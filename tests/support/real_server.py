"""A server that a make target started: asked directly, killed and started again by the script that governs it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from dataclasses import dataclass
from pathlib import Path
from urllib.request import ProxyHandler, Request, build_opener

ROOT = Path(__file__).resolve().parents[2]
DIRECT = build_opener(ProxyHandler({}))
"""A proxy has no business between this machine and itself."""


@dataclass(frozen=True)
class RealServer:
    """Where its API is, which folder's model it serves under which name, its script, and the key that it asks for."""

    url: str
    model: str
    script: str
    key: str = ""
    name: str = ""

    def get(self, path: str) -> str:
        headers = {"Authorization": f"Bearer {self.key}"} if self.key else {}
        with DIRECT.open(Request(self.url.removesuffix("/v1") + path, headers=headers), timeout=30) as reply:
            text: str = reply.read().decode()
        return text

    def served(self) -> list[str]:
        return [model["id"] for model in json.loads(self.get("/v1/models"))["data"]]

    def kill(self) -> None:
        """At once and with all that it started, as a node that fails would."""
        os.killpg(int((ROOT / self._run() / "pid").read_text().split()[0]), signal.SIGKILL)

    def start(self) -> None:
        command = [str(ROOT / "scripts" / "servers" / self.script), "start", self.model, *filter(None, [self.name])]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=700)
        assert done.returncode == 0, done.stderr

    @property
    def is_ours(self) -> bool:
        """Whether the script in this environment governs it, so that it may be killed."""
        return bool(self._run())

    def log(self) -> str:
        return (ROOT / self._run() / "log").read_text(encoding="utf-8", errors="replace")

    def _run(self) -> str:
        return os.environ.get(f"KVRELAY_{self.script.removesuffix('.sh').upper()}_RUN", "")
