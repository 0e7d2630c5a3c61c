"""The text around the records: plain sentences drawn from a fixed stock, fitted to a number of tokens."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from data_adapters.erasing_niah.vocabulary import DID, SCENES, SEEMED, SHORT, WHAT, WHEN, WHO
from kvrelay.core.example import CountTokens

STOCK = 600
"""Different sentences; long texts repeat them, in another order each time."""

NEAREST = 6
"""Rounds of looking for the sentence that fills what is left best; each leaves less than a short sentence."""


@lru_cache(maxsize=8)
def stock(seed: int) -> tuple[str, ...]:
    """The sentences of one seed, without the space between them."""
    rng = random.Random(f"filler of seed {seed}")
    found: dict[str, None] = {}
    while len(found) < STOCK:
        found.setdefault(_sentence(rng))
    return tuple(found)


def _sentence(rng: random.Random) -> str:
    who, did, what, when = (rng.choice(words) for words in (WHO, DID, WHAT, WHEN))
    scene, seemed = rng.choice(SCENES), rng.choice(SEEMED)
    said = rng.choice(
        (
            f"{who} {did} {what} {when}.",
            f"{when}, {who} {did} {what}.",
            f"{who} {did} {what}, and {scene} {seemed}.",
            f"{scene} {seemed} {when}.",
            f"{who} said that {scene} {seemed}.",
            f"{what} {seemed} while {who} sat nearby.",
        )
    )
    return said[0].upper() + said[1:]


@dataclass(frozen=True, slots=True, kw_only=True)
class Filler:
    """Draws passages of ``sentences`` sentences each, of which every one is tokenised by itself."""

    seed: int
    sentences: int
    count_tokens: CountTokens

    def passages(self, n_tokens: int, rng: random.Random) -> list[str]:
        """Passages of at most ``n_tokens`` tokens together, short of it by less than the shortest sentence."""
        found: list[str] = []
        left, drawn = n_tokens, self._endless(rng)
        while left > 0:
            passage = " ".join(next(drawn) for _ in range(self.sentences)) + "\n"
            cost = self.count_tokens(passage)
            if cost > left:
                return found + self._last(left, rng)
            found.append(passage)
            left -= cost
        return found

    def _endless(self, rng: random.Random) -> Iterator[str]:
        while True:
            yield from rng.sample(stock(self.seed), STOCK)

    def _last(self, left: int, rng: random.Random) -> list[str]:
        """One shorter passage: in each round the sentence that leaves least, of a few drawn ones and the short ones."""
        best, cost = "", 0
        for _ in range(self.sentences + NEAREST):
            drawn = [*rng.sample(stock(self.seed), NEAREST), *SHORT]
            costs = {said: self.count_tokens(said) for said in (f"{best} {one}".strip() for one in drawn)}
            fitting = {said: tokens for said, tokens in self._closed(costs).items() if tokens <= left}
            longest = max(fitting.values(), default=0)
            if longest <= cost:
                break
            best, cost = next(said for said, tokens in fitting.items() if tokens == longest), longest
        return [f"{best}\n"] if best else []

    def _closed(self, costs: dict[str, int]) -> dict[str, int]:
        return {said: self.count_tokens(f"{said}\n") for said in costs}
