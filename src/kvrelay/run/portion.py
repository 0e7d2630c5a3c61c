"""The part of a run's histories that one job of a sweep answers: setting ``shard=i/n``."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass

from kvrelay.core.errors import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class Portion:
    """Part ``index`` (1 … ``count``) of all histories.

    A history belongs to part sha256(history id) mod n + 1: to the same one whatever the order, the limit or the number
    of questions, so that all its questions share one prefill in one job.
    """

    index: int
    count: int

    @staticmethod
    def of(shard: str | None) -> Portion:
        """What ``shard`` says; all of it for None. Raises `ConfigError` for anything but i/n with 1 <= i <= n."""
        if shard is None:
            return Portion(index=1, count=1)
        match = re.fullmatch(r"0*(\d{1,6})/0*(\d{1,6})", shard.strip(), re.ASCII)
        index, count = (int(match[1]), int(match[2])) if match else (0, 0)
        if not 1 <= index <= count:
            raise ConfigError(
                f"shard = {shard}: wanted i/n with i from 1 to n, as 1/4 for the first of four parts (key: shard)"
            )
        return Portion(index=index, count=count)

    def holds(self, history_id: str) -> bool:
        """Whether the questions about this history are this part's."""
        return int(hashlib.sha256(history_id.encode()).hexdigest(), 16) % self.count == self.index - 1

    @property
    def whole(self) -> bool:
        return self.count == 1

    @property
    def suffix(self) -> str:
        """What is put behind the names of files that are this part's own; nothing where the part is all."""
        return "" if self.whole else f".{self.index}-of-{self.count}"

    def __str__(self) -> str:
        return f"{self.index}/{self.count}"
