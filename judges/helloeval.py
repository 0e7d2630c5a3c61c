"""HelloEval: a long answer held to a checklist, entry by entry, by a model behind any OpenAI-compatible server."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Literal

from judges.checklist import checked_weights, load_weights
from judges.endpoint import OpenAICompatibleJudge
from judges.engine import Exchange
from judges.grading import NO_CHECKLIST, Grading, entries, joined
from judges.settled import EndpointJudge, Instrument
from kvrelay.core.errors import ConfigError
from kvrelay.judging.local import judge_facts
from kvrelay.judging.protocol import BlindItem
from kvrelay.run.record import Verdict

PerCall = Literal["all", "one"]


@dataclass(frozen=True, slots=True, kw_only=True)
class HelloEvalJudge(OpenAICompatibleJudge):
    """Asks for a grade of 0, 0.25, 0.5, 0.75 or 1 for every entry of an item's checklist, by `judges.grading`'s rules.

    ``per_call``: all entries in one request, or each in its own. ``weights_path`` is a file of weights by category
    (they belong to the data set and are not part of this project), ``weights`` are those of a set of one's own; with
    neither there is no HelloEval score, only the plain mean. The server is held to no form: a list of grades has none
    of those that are probed for.
    """

    prompt: str = "checklist_v1"
    max_tokens: int = 2048
    constraint: Literal["none"] = "none"
    lenient: tuple[Literal["fence"], ...] = ("fence",)
    per_call: PerCall = "all"
    max_candidate_words: int | None = None
    weights_path: str | None = None
    weights: dict[str, list[float]] = field(default_factory=dict)
    category_keys: dict[str, str] = field(default_factory=dict)
    named_items: dict[str, dict[str, int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        OpenAICompatibleJudge.__post_init__(self)
        if self.per_call not in ("all", "one"):
            raise ConfigError(f"judge.*.per_call is {self.per_call!r}; wanted all or one")
        if self.max_candidate_words is not None and self.max_candidate_words < 1:
            raise ConfigError(f"judge.*.max_candidate_words is {self.max_candidate_words}; wanted null or at least 1")
        if self.weights and self.weights_path:
            raise ConfigError("judge.*.weights and judge.*.weights_path are both set; wanted one of them, or neither")
        checked_weights(self.weights, "judge.*.weights")
        if unknown := sorted(set(self.named_items) - {"factuality", "coverage"}):
            raise ConfigError(f"judge.*.named_items names {', '.join(unknown)}; wanted factuality or coverage")

    def settled(self, name: str) -> ChecklistJudge:
        """As any judge on a server. Raises also `AssetError` and `ConfigError` for weights that cannot be used."""
        grading = self.grading()
        return ChecklistJudge.of(OpenAICompatibleJudge.settled(self, name), self, grading)

    def grading(self) -> Grading:
        """The rules, weights read from their file."""
        where = f"judge.*.weights_path={self.weights_path}" if self.weights_path else "judge.*.weights"
        weights = checked_weights(self.weights, where) or None
        if self.weights_path:
            weights = load_weights(self.weights_path, "judge.*.weights_path")
        return Grading(
            accept_fence="fence" in self.lenient,
            max_candidate_words=self.max_candidate_words,
            weights=weights,
            category_keys=self.category_keys,
            named_items=self.named_items,
            where=where,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ChecklistInstrument(Instrument):
    """What is sent about an item, and how its grades add up."""

    grading: Grading
    per_call: PerCall

    def request(self, item: BlindItem) -> Mapping[str, Any] | Exchange:
        """A function of the item alone; an item without a checklist needs no server."""
        if not item.checklist:
            return Exchange(reason=NO_CHECKLIST)
        return self.body(self.grading.messages(self.prompt, item))

    def identity(self) -> dict[str, Any]:
        """What is hashed into the judge's id."""
        grading = {"checklist": self.grading.identity(), "per_call": self.per_call}
        return {**Instrument.identity(self), **grading}


class ChecklistJudge(EndpointJudge):
    """A settled judge whose verdicts are grades: neither right nor wrong, ``scored`` all the same."""

    _instrument: ChecklistInstrument

    @classmethod
    def of(cls, server: EndpointJudge, settings: HelloEvalJudge, grading: Grading) -> ChecklistJudge:
        """The checklist judge of a server that has been asked who it is."""
        seen = server._instrument
        parts = {part.name: getattr(seen, part.name) for part in fields(Instrument)}
        instrument = ChecklistInstrument(**parts, grading=grading, per_call=settings.per_call)
        kept = ("template", "template_sha256", "probes", "caveats", "fingerprints")
        facts = judge_facts(
            server.facts.name, instrument.identity(), **{name: getattr(server.facts, name) for name in kept}
        )
        return cls(server._endpoint, settings.limits(), instrument, facts, server._fingerprint)

    def verdicts(self, items: Iterable[BlindItem]) -> Iterator[Verdict]:
        """One verdict an item. Raises `DataError` or `ConfigError`, before an item is sent, for one whose category has
        no weights, or whose checklist is not as long as its weights say."""
        if self._instrument.per_call == "one":
            return self._one_by_one(self._checked(items))
        return super().verdicts(self._checked(items))

    def _checked(self, items: Iterable[BlindItem]) -> Iterator[BlindItem]:
        for item in items:
            if item.checklist:
                self._instrument.grading.check(item)
            yield item

    def _verdict(self, exchange: Exchange, item: BlindItem) -> Verdict:
        """The grades of one request; their sums too, where it asked for all of them."""
        verdict = super()._verdict(exchange, item)
        if verdict.reason in ("", "malformed"):
            read = self._instrument.grading.graded(self._reply(exchange).text, item)
            verdict = verdict.model_copy(update=read)
        return verdict if self._instrument.per_call == "one" else self._instrument.grading.summed(item, verdict)

    def _one_by_one(self, items: Iterable[BlindItem]) -> Iterator[Verdict]:
        """Each entry in a request of its own; an item's verdict comes when its last entry's does."""
        waiting: dict[str, _Waiting] = {}

        def parts() -> Iterator[BlindItem]:
            for item in items:
                asked = entries(item) or (item,)
                whole = _Waiting(item=item, keys=tuple(part.key for part in asked))
                for part in asked:
                    waiting[part.key] = whole
                    yield part

        verdicts = super().verdicts(parts())
        try:
            for verdict in verdicts:
                whole = waiting.pop(verdict.item_key)
                whole.found[verdict.item_key] = verdict
                if len(whole.found) == len(whole.keys):
                    together = joined(whole.item, [whole.found[key] for key in whole.keys])
                    yield self._instrument.grading.summed(whole.item, together)
        finally:
            if isinstance(verdicts, Generator):
                verdicts.close()


@dataclass(slots=True, kw_only=True)
class _Waiting:
    """An item, the keys of its entries in their order, and those that have come."""

    item: BlindItem
    keys: tuple[str, ...]
    found: dict[str, Verdict] = field(default_factory=dict)
