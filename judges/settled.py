"""A judge whose server has been asked who it is: its identity is complete, and it judges as long as that stays true."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from judges.asking import REQUEST_VERSION, Asking, Constraint
from judges.engine import Engine, Exchange, Job, Limits
from judges.ladder import Ladder, Probe
from judges.prompt import Prompt, mend
from judges.reply import PARSER_VERSION, Reply, Rule, read_reply
from judges.said import Said
from judges.transport import Endpoint
from kvrelay.core.errors import EndpointError
from kvrelay.judging.local import judge_facts
from kvrelay.judging.protocol import BlindItem
from kvrelay.run.record import JudgeFacts, Verdict

LONGEST_RAW = 16_384
"""Characters of a reply that a verdict keeps; the reading is of all of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Instrument:
    """Everything that decides what is sent about an item and how the reply is read."""

    prompt: Prompt
    asking: Asking
    constraint: Constraint
    rules: tuple[Rule, ...]
    max_prompt_chars: int | None
    model: str | None
    """The model that answered when it was settled."""

    def request(self, item: BlindItem) -> Mapping[str, Any] | Exchange:
        """A function of the item alone; what needs no server is told without one."""
        if item.checklist:
            return Exchange(reason="rubric")
        if not any(reference.strip() for reference in item.references):
            return Exchange(reason="no_reference")
        return self.body(self.prompt.messages(item))

    def body(self, messages: Sequence[Mapping[str, str]]) -> Mapping[str, Any] | Exchange:
        """The request that holds these messages, unless they are longer than may be sent."""
        length = sum(len(message["content"]) for message in messages)
        if self.max_prompt_chars is not None and length > self.max_prompt_chars:
            words = f"{length} characters, more than judge.*.max_prompt_chars = {self.max_prompt_chars}; not sent"
            return Exchange(reason="too_long", detail=words)
        return self.asking.body(messages, self.constraint)

    def identity(self) -> dict[str, Any]:
        """What is hashed into the judge's id. Where the server is, its key and how hard it is asked are not in it."""
        return {
            "template": {"name": self.prompt.name, "system": self.prompt.system, "rubric": self.prompt.rubric},
            "model_asked": self.asking.model,
            "model_answered": self.model,
            "fields": self.asking.fields(self.constraint),
            "constraint": self.constraint,
            "reading": list(self.rules),
            "api": self.asking.api,
            "max_prompt_chars": self.max_prompt_chars,
            "request_version": REQUEST_VERSION,
            "parser_version": PARSER_VERSION,
        }


class EndpointJudge:
    """The settled judge of one server: `kvrelay.judging.protocol.SettledJudge`."""

    def __init__(
        self, endpoint: Endpoint, limits: Limits, instrument: Instrument, facts: JudgeFacts, fingerprint: str | None
    ) -> None:
        self.facts = facts
        self._endpoint, self._instrument, self._fingerprint = endpoint, instrument, fingerprint
        self._model = instrument.model
        """The model that answers: where the first questions' replies named none, the first that a later one names."""
        job = Job(
            api=instrument.asking.api,
            request=instrument.request,
            read=self._verdict,
            key=lambda item: item.key,
            again=self._deserves_another,
        )
        self._engine: Engine[BlindItem, Verdict] = Engine(endpoint, limits, job)

    def __repr__(self) -> str:
        return f"EndpointJudge({self.facts.id})"

    def verdicts(self, items: Iterable[BlindItem]) -> Iterator[Verdict]:
        return self._engine.run(items)

    def pace(self) -> str:
        return self._engine.pace()

    def _verdict(self, exchange: Exchange, item: BlindItem) -> Verdict:
        """Raises `EndpointError` where another model answered: then its words are no verdict of this judge."""
        reply = self._reply(exchange)
        cost = {"judge_s": exchange.seconds, "attempts": exchange.attempts, "last_error": mend(exchange.last_error)}
        return Verdict(
            judge_id=self.facts.id,
            item_key=item.key,
            correct=reply.correct,
            reason=reply.reason,
            parse=reply.parse,
            raw=mend(reply.text[:LONGEST_RAW]),
            usage=reply.usage | {name: value for name, value in cost.items() if value != ""},
        )

    def _reply(self, exchange: Exchange) -> Reply:
        if exchange.said is None:
            return Reply(reason=exchange.reason, text=exchange.detail)
        self._require_same(exchange.said)
        return read_reply(exchange.said, self._instrument.rules)

    def _require_same(self, said: Said) -> None:
        """A name that was not given says nothing. A model that is named for the first time after the start is held to
        from there on; the identity goes on saying that none was named, since other verdicts had it by then."""
        frozen = {"model": self._model, "system_fingerprint": self._fingerprint}
        now = {"model": said.model, "system_fingerprint": said.fingerprint}
        for name, before in frozen.items():
            if None not in (before, now[name]) and now[name] != before:
                raise EndpointError(
                    f"judge's server at {self._endpoint.base_url} changed while it judged: its {name} was {before!r} "
                    f"and now is {now[name]!r}. What was judged is kept, and this reply is "
                    f"not; run the same command again to judge the rest with what is served now (judge.*.model)"
                )
        self._model = self._model or said.model

    def _deserves_another(self, verdict: Verdict) -> bool:
        """Greedy replies may still differ (servers batch), so an unreadable one is asked for once more. Never where
        replies are drawn: drawing until one can be read would choose verdicts by their form."""
        return verdict.reason == "malformed" and self._instrument.asking.temperature == 0


def settle(
    name: str,
    *,
    endpoint: Endpoint,
    limits: Limits,
    prompt: Prompt,
    asking: Asking,
    constraint: Constraint | Literal["auto"],
    rules: tuple[Rule, ...],
    max_prompt_chars: int | None,
    caveats: tuple[str, ...],
) -> EndpointJudge:
    """Probe the server and freeze what it showed. Raises `EndpointError` as `Ladder.climb` does."""
    frozen, probes = Ladder(asking=asking, rules=rules, ask=_asker(endpoint, limits, asking)).climb(constraint)
    model, fingerprint = _spoken(probes, endpoint)
    instrument = Instrument(
        prompt=prompt,
        asking=asking,
        constraint=frozen,
        rules=rules,
        max_prompt_chars=max_prompt_chars,
        model=model,
    )
    facts = judge_facts(
        name,
        instrument.identity(),
        template=prompt.name,
        template_sha256=prompt.sha256,
        probes=[probe.told() for probe in probes],
        caveats=list(caveats),
        fingerprints=(fingerprint,) if fingerprint else (),
    )
    return EndpointJudge(endpoint, limits, instrument, facts, fingerprint)


def _asker(endpoint: Endpoint, limits: Limits, asking: Asking) -> Any:
    """One body to the server and back, with the same patience as for an item."""
    job: Job[dict[str, Any], Exchange] = Job(
        api=asking.api, request=lambda body: body, read=lambda exchange, body: exchange, key=lambda body: "probe"
    )
    engine = Engine(endpoint, limits, job)

    def ask(body: dict[str, Any]) -> Exchange:
        (exchange,) = engine.run([body])
        return exchange

    return ask


def _spoken(probes: list[Probe], endpoint: Endpoint) -> tuple[str | None, str | None]:
    """Model and fingerprint that all probes agree on. Raises `EndpointError` where they do not."""
    spoke = {(probe.said.model, probe.said.fingerprint) for probe in probes if probe.said is not None}
    if len(spoke) != 1:
        names = ", ".join(sorted(map(str, spoke)))
        raise EndpointError(
            f"judge's server at {endpoint.base_url} answers as several models: {names}; a judge is one: set "
            f"judge.*.base_url to one server, or judge.*.model to one model"
        )
    return spoke.pop()
