"""The caches that selectors kept, written to files for analyses (``keep_caches``). Answers do not depend on it."""

from __future__ import annotations

import logging
from pathlib import Path

from kvrelay.backend.cachefile import CacheIdentity, find_cache, save_cache
from kvrelay.backend.prompt import Prompt, PromptRenderer
from kvrelay.core.cache import KVCache
from kvrelay.core.history import PrefilledHistory
from kvrelay.run.grid import GridCell, science
from kvrelay.run.record import digest

LOG = logging.getLogger(__name__)


class CacheKeeper:
    """Writes every kept cache of one model to ``folder``, once; a disk that takes no more ends the keeping alone."""

    def __init__(self, folder: Path, model: str, dtype: str, renderer: PromptRenderer) -> None:
        self.folder = folder
        self.model = model
        self.dtype = dtype
        self.template = template_sha256(renderer)
        self.full = False

    def keep(self, cell: GridCell, cache: KVCache, prefilled: PrefilledHistory, prompt: Prompt) -> None:
        """Write one cache, not yet moved, unless a file of its identity is there."""
        if self.full:
            return
        identity = self.identity(cell, prefilled.history_id, prompt)
        try:
            if find_cache(self.folder, identity) is None:
                save_cache(self.folder, cache, identity)
        except OSError as error:
            self.full = True
            LOG.warning("no more caches are kept in %s: %s (key: keep_caches)", self.folder, error)

    def identity(self, cell: GridCell, history_id: str, prompt: Prompt) -> CacheIdentity:
        """What the cache of a cell is of; the position plays no part, since states are kept before they are moved."""
        aware = cell.selector.question_aware
        return CacheIdentity(
            model=self.model,
            dtype=self.dtype,
            template=self.template,
            history_id=history_id,
            tokens=digest(list(prompt.prefilled_ids)),
            selection=digest([science(cell.selector), science(cell.retention)]),
            question=digest([prompt.question.text, list(prompt.question.token_ids)]) if aware else "",
        )


def template_sha256(renderer: PromptRenderer) -> str:
    """Hash of what makes tokens of texts: vocabulary, chat template and its variables."""
    tokenizer = renderer.tokenizer
    template = tokenizer.chat_template if renderer.template else None
    return digest([sorted(tokenizer.get_vocab().items()), template, renderer.options])
