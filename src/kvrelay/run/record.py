"""What is written down: one record an answer, one verdict a judgement, one manifest a run. Plain values, versioned."""

from __future__ import annotations

import hashlib
import json
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

SCHEMA_VERSION = 1

RETRIED_REASONS = frozenset({"transport_error", "rejected"})
"""Why an item can be unscored through no property of its own: the server was away, or refused the request's form."""

SCORED = "scored"
"""Reason of a verdict that is numbers and nothing else: a checklist's grades are neither right nor wrong."""


def digest(value: object) -> str:
    """sha256 of a value's canonical JSON: the one way in which settings, cells and items get their keys."""
    text = json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


class Schema(BaseModel):
    """Frozen, and a field that nobody declared is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Cell(Schema):
    """Names of one (model, dataset, selector, retention, position), as the config groups call them.

    With repair after a deletion also (allocator, budget, executor); all three are empty where nothing is deleted.
    """

    model: str
    dataset: str
    selector: str
    retention: str
    position: str
    allocator: str = ""
    budget: str = ""
    executor: str = ""

    @property
    def label(self) -> str:
        names = (self.model, self.dataset, self.selector, self.retention, self.position)
        return " · ".join(name for name in (*names, self.allocator, self.budget, self.executor) if name)


class ErrorInfo(Schema):
    """Why an example has no answer."""

    kind: str
    message: str


class Timings(Schema):
    """Seconds by stage. ``prefill_s`` is that of the shared prefill; ``batch_rows`` rows shared the decoding times.

    Of a repair: ``relocate_s`` is the shift, ``allocate_s`` the choice of states with all probes, ``refresh_s`` the
    recomputation (of Re-prefill: the whole edited text). The harness's own copies of caches are in none of them.
    """

    prefill_s: float = 0.0
    select_s: float = 0.0
    relocate_s: float = 0.0
    allocate_s: float = 0.0
    refresh_s: float = 0.0
    question_s: float = 0.0
    decode_s: float = 0.0


class RepairFacts(Schema):
    """What was deleted and what was refreshed (SUR, section A.1). Counts are of slots of the edited cache."""

    splice: int
    """P: slots before the first deletion."""
    n_suffix: int
    """S: stale slots after it."""
    n_deleted: int
    requested: int
    """B: the budget in slots."""
    refreshed: int
    """Slots that were recomputed; equal to ``requested``, bridged ones included."""
    bridged: int = 0
    interval_lengths: tuple[int, ...] = ()
    diagnostic: bool = False
    """Whether its allocator read the clean cache: it explains methods and is none."""
    edited_sha256: str = ""
    """Hash of the edited context's tokens: placements of one deletion share it."""
    kl: float | None = None
    """Mean over the tokens of Re-prefill's own answer of KL(Re-prefill || this arm), nats a token, teacher-forced."""
    token_layer_updates: int = 0
    causal_pairs: int = 0
    """Query-key pairs in one layer that the refreshed queries read within the suffix; ``replay_pairs`` for all of S."""
    replay_pairs: int = 0
    mixed: list[dict[str, float | None]] = []
    """By layer, where it was asked for: deviations of refreshed states, and the attention they give to stale ones."""
    notes: dict[str, Any] = {}
    """What edit and allocator want on record: snapped borders, ties at the budget's border, a degenerate query."""


class RunRecord(Schema):
    """One answer of one cell to one example, with all that is needed to judge, pair and trust it."""

    schema_version: int = SCHEMA_VERSION
    key: str
    """Hash of the cell's scientific configuration and of the example: equal keys are the same measurement."""
    pair_key: str
    """The same hash without the position: the arms of a pair share it."""
    cell: Cell
    run_id: str
    worker: str
    example_id: str
    cluster_id: str
    history_id: str
    question: str
    question_type: str
    question_date: str | None = None
    references: tuple[str, ...] = ()
    choices: dict[str, str] = {}
    gold_choice: str | None = None
    unanswerable: bool = False
    checklist: tuple[str, ...] = ()
    status: Literal["ok", "error"]
    error: ErrorInfo | None = None
    answer: str | None = None
    answer_tokens: int = 0
    stop: Literal["eos", "length"] | None = None
    max_new_tokens: int = 0
    reference_nll: float | None = None
    """Mean negative log-likelihood of the first reference's tokens, in nats a token, teacher-forced."""
    choice_logprobs: dict[str, float] = {}
    """Log-probability of each option's letter after the answer's opening, where the data set has choices."""
    n_history: int = 0
    n_protected: int = 0
    n_question: int = 0
    budget: int = 0
    slots_LH: list[list[int]] = []
    anchor: int = 0
    next_position: int = 0
    cache_bytes: int = 0
    kept_sha256: str = ""
    values_sha256: str = ""
    batch_sha256: str = ""
    """Hash of the list of cells that decoded in one batch with this one, and of its dtype."""
    batch_rows: int = 1
    repair: RepairFacts | None = None
    timings: Timings = Timings()
    peak_memory_bytes: int = 0
    notes: dict[str, Any] = {}
    """What a selector, adapter or trimmer wants on record: merge rate, dropped units, flags of the data set."""

    def item_fields(self) -> dict[str, Any]:
        """What a judge may see of this record, and nothing else."""
        said = {
            "question": self.question,
            "references": list(self.references),
            "candidate": self.answer or "",
            "question_type": self.question_type,
            "question_date": self.question_date,
            "choices": self.choices,
            "gold_choice": self.gold_choice,
            "unanswerable": self.unanswerable,
        }
        return {**said, "checklist": list(self.checklist)} if self.checklist else said


def item_key(judge_id: str, fields: dict[str, Any]) -> str:
    """Key of a judgement. Identical answers under two methods share it, so that they are judged once."""
    return digest({"judge": judge_id, "item": fields})


class Verdict(Schema):
    """A judge's answer about one item: true, false, or unscored with a reason. Unscored is never counted as false."""

    schema_version: int = SCHEMA_VERSION
    judge_id: str
    item_key: str
    """Hash of what the judge saw and of the judge itself; records join their verdicts by it."""
    correct: bool | None
    reason: str = ""
    """Why it is unscored (malformed, truncated, refused, empty, transport_error, too_long, no_reference, rubric …)."""
    parse: str = "strict"
    scores: dict[str, float] = {}
    """Numbers that a judge gives beside its verdict (token F1, exact match, the official rule's outcome …)."""
    raw: str = ""
    usage: dict[str, Any] = {}

    @property
    def is_scored(self) -> bool:
        """Whether it says something about the answer: true or false, or a checklist's grades."""
        return self.correct is not None or self.reason == SCORED

    @property
    def is_final(self) -> bool:
        """Whether later runs leave it alone: scored, or unscored for a reason of the item's own."""
        return self.correct is not None or self.reason not in RETRIED_REASONS


class GoldFacts(Schema):
    """How a judge did on items whose verdicts are known, before it was let near any answer."""

    sha256: str
    """Hash of the items."""
    asked: int
    right: int
    threshold: int
    """So many had to be right."""
    failed: list[str] = []
    """Names of the items that it got wrong or gave no verdict on."""


class JudgeFacts(Schema):
    """Who judged, whole: written before the first verdict, so that no verdict is without its judge.

    ``id`` is the name and a hash of ``identity``; verdicts and item keys hold it, so that any change of what is hashed
    makes another judge whose verdicts never mix with the old one's.
    """

    schema_version: int = SCHEMA_VERSION
    name: str
    """What the configuration calls it; several identities may bear one name."""
    id: str
    created: str
    """UTC, ISO 8601. Of several identities of one name a report takes the newest."""
    identity: dict[str, Any] = {}
    """Everything that can change a verdict: template, model asked for and model that answered, sampling, limit, form of
    constraint, effort, versions of request and parser; or the rules of a judge that needs no server."""
    template: str = ""
    template_sha256: str = ""
    """Of the template's own text; printed under every table that this judge scored. Empty for rules."""
    probes: list[dict[str, Any]] = []
    """What the server did with each form of constraint that was tried on it, strongest first."""
    gold: GoldFacts | None = None
    caveats: list[str] = []
    """What every table of this judge must say (a model too small to judge)."""
    fingerprints: tuple[str, ...] = ()
    """Every ``system_fingerprint`` under which its server answered, in order of appearance. Of a settled judge the one
    it saw; no part of ``id``, because a restarted server would orphan all verdicts."""


class PlannedCell(Schema):
    """One cell of a run and the keys of the records that it expects, in the order of its examples."""

    cell: Cell
    config_sha256: str
    """Hash of the cell's scientific configuration: the same names with another hash are another measurement."""
    keys: tuple[str, ...]


class RunPlan(Schema):
    """What a run sets out to measure; written before any work, so that a report can name what is missing."""

    schema_version: int = SCHEMA_VERSION
    experiment: str
    run_id: str
    created: str
    """UTC, ISO 8601. Of two runs that hold the same cell with different settings, a report takes the newer one."""
    cells: tuple[PlannedCell, ...]
    judges: tuple[str, ...] = ()
    """Names of the judges in use (or an id, where one identity alone is meant); the first gives the headline column."""
    stamps: tuple[str, ...] = ()
    """What every table must say: trimmed histories, a short answer limit, LIMIT, a laptop model."""
    changed: tuple[str, ...] = ()
    """Components, as ``group.name``, whose settings differ from those that their name stands for in ``conf/``."""
    settings: dict[str, Any] = {}
    """The resolved configuration, for people and provenance."""


class Manifest(Schema):
    """Written last, by atomic rename: a run with a manifest is complete."""

    schema_version: int = SCHEMA_VERSION
    run_id: str
    experiment: str
    expected: int
    done: int
    failed: list[str] = []
    skipped: int = 0
    files: dict[str, str] = {}
    stamps: list[str] = []
