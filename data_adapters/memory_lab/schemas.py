"""The three file schemas: a plot, its dated sessions and its questions as the published data sets write them."""

from __future__ import annotations

import csv
import hashlib
import io
import json
import random
import uuid
from collections.abc import Sequence
from dataclasses import dataclass

from data_adapters.memory_lab.world import N_DAYS, Query, Round, Session, stamp
from kvrelay.core.example import CountTokens

LETTERS = "abcd"
QUESTION_DAY = N_DAYS + 3
"""Questions are asked three days after the window of the sessions has closed."""

PERSONAMEM_COLUMNS = (
    "persona_id",
    "question_id",
    "question_type",
    "topic",
    "context_length_in_tokens",
    "context_length_in_letters",
    "distance_to_ref_in_blocks",
    "distance_to_ref_in_tokens",
    "num_irrelevant_tokens",
    "distance_to_ref_proportion_in_context",
    "user_question_or_message",
    "correct_answer",
    "all_options",
    "shared_context_id",
    "end_index_in_shared_context",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Story:
    """A finished history: its sessions in order, its questions, the persona's text where there is one."""

    number: int
    sessions: tuple[Session, ...]
    queries: tuple[Query, ...]
    title: str = ""


def dated_text(session: Session) -> str:
    """A session about as a LongMemEval prompt shows it, for counting its tokens."""
    said = "".join(f"\n\nuser: {r.user}\n\nassistant: {r.assistant}" for r in session.rounds)
    return f"\n### Session 10:\nSession Date: {stamp(session.day, 600)}\nSession Content:\n{said}\n"


def exchange_text(spoken: Round) -> str:
    """A round as Long-MT-Bench+ writes it."""
    return f"[human]: {spoken.user}\n[bot]: {spoken.assistant}"


def block_messages(session: Session, title: str) -> list[dict[str, str]]:
    """A session as PersonaMem writes it: the persona, then messages that open with their speaker."""
    said = [
        {"role": role, "content": f"{role.capitalize()}: {content}"}
        for r in session.rounds
        for role, content in (("user", r.user), ("assistant", r.assistant))
    ]
    return [{"role": "system", "content": f"Current user persona: {title}"}, *said]


def block_text(session: Session, title: str) -> str:
    """A block about as a chat template shows it, for counting its tokens."""
    return "".join(f"\n{m['role']}\n{m['content']}\n" for m in block_messages(session, title))


def longmemeval(story: Story, rng: random.Random) -> list[dict[str, object]]:
    """One record a question. All records of a story have the same sessions, dates and session ids.

    ``has_answer`` stands on the turns of the evidence sessions alone. Of an unanswerable question, the answer
    sessions are near misses and no turn has the answer; its id ends in ``_abs`` and it keeps its type.
    """
    minutes = [rng.randrange(7 * 60, 22 * 60) for _ in story.sessions]
    dates = [stamp(s.day, minute) for s, minute in zip(story.sessions, minutes, strict=True)]
    ids = [f"{'answer' if s.facts else 'chat'}_{rng.getrandbits(32):08x}" for s in story.sessions]
    asked = stamp(QUESTION_DAY, rng.randrange(7 * 60, 22 * 60))
    records: list[dict[str, object]] = []
    for query in story.queries:
        marked = [bool(set(s.facts) & set(query.evidence)) for s in story.sessions]
        records.append(
            {
                "question_id": f"{rng.getrandbits(32):08x}" + ("_abs" if query.unanswerable else ""),
                "question_type": query.type,
                "question": query.text,
                "answer": query.answer,
                "question_date": asked,
                "haystack_dates": dates,
                "haystack_session_ids": ids,
                "haystack_sessions": [_turns(s, m, query) for s, m in zip(story.sessions, marked, strict=True)],
                "answer_session_ids": [id_ for id_, m in zip(ids, marked, strict=True) if m],
            }
        )
    return records


def _turns(session: Session, marked: bool, query: Query) -> list[dict[str, object]]:
    turns: list[dict[str, object]] = []
    for spoken in session.rounds:
        for role, content in (("user", spoken.user), ("assistant", spoken.assistant)):
            turn: dict[str, object] = {"role": role, "content": content}
            if marked:
                told = spoken.fact in query.evidence and spoken.teller == role
                turn["has_answer"] = told and not query.unanswerable
            turns.append(turn)
    return turns


def long_mt_bench_plus(story: Story, span: int) -> dict[str, object]:
    """One record a conversation; exchanges at places of one span are one session."""
    sessions: dict[int, list[str]] = {}
    for session in story.sessions:
        sessions.setdefault(session.day // span, []).extend(exchange_text(r) for r in session.rounds)
    return {
        "conversation_id": story.number,
        "sessions": list(sessions.values()),
        "turns": [[exchange] for session in sessions.values() for exchange in session],
        "questions": [query.text for query in story.queries],
        "answers": [query.answer for query in story.queries],
    }


def personamem(
    story: Story, letters: Sequence[str], rng: random.Random, count_tokens: CountTokens
) -> tuple[list[dict[str, object]], dict[str, object]]:
    """A story's rows and its shared context. ``letters`` are the right ones of its questions, in their order."""
    blocks = [block_messages(session, story.title) for session in story.sessions]
    messages = [message for block in blocks for message in block]
    context_id = hashlib.sha256(json.dumps(messages, ensure_ascii=False).encode()).hexdigest()
    sizes = [count_tokens(block_text(session, story.title)) for session in story.sessions]
    shared: dict[str, object] = {
        "persona_id": story.number,
        "context_length_in_tokens": sum(sizes),
        "context_length_in_letters": sum(len(m["content"]) for m in messages),
        "num_irrelevant_tokens": sum(n for n, s in zip(sizes, story.sessions, strict=True) if not s.facts),
        "shared_context_id": context_id,
        "end_index_in_shared_context": len(messages),
    }
    rows = []
    for query, letter in zip(story.queries, letters, strict=True):
        row = shared | _distance(story.sessions, sizes, query) | _choices(query, letter, rng)
        row |= {"question_id": str(uuid.UUID(int=rng.getrandbits(128), version=4)), "question_type": query.type}
        row |= {"topic": query.topic, "user_question_or_message": query.text}
        rows.append({column: row[column] for column in PERSONAMEM_COLUMNS})
    return rows, {context_id: messages}


def _distance(sessions: Sequence[Session], sizes: Sequence[int], query: Query) -> dict[str, object]:
    """How far before the question the first session of its evidence begins."""
    first = next(i for i, s in enumerate(sessions) if set(s.facts) & set(query.evidence))
    tokens = sum(sizes[first:])
    return {
        "distance_to_ref_in_blocks": len(sessions) - first,
        "distance_to_ref_in_tokens": tokens,
        "distance_to_ref_proportion_in_context": f"{100 * tokens / sum(sizes):.2f}%",
    }


def _choices(query: Query, letter: str, rng: random.Random) -> dict[str, object]:
    """The right reply under its letter, the others around it in a drawn order, as a list that Python writes."""
    others = rng.sample(query.options[1:], len(query.options) - 1)
    placed = [query.options[0] if label == letter else others.pop() for label in LETTERS]
    options = [f"({label}) {text}" for label, text in zip(LETTERS, placed, strict=True)]
    return {"correct_answer": f"({letter})", "all_options": str(options)}


def json_array(records: Sequence[object]) -> bytes:
    return (json.dumps(records, ensure_ascii=False, indent=1) + "\n").encode()


def json_lines(records: Sequence[object]) -> bytes:
    return "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records).encode()


def csv_table(rows: Sequence[dict[str, object]]) -> bytes:
    buffer = io.StringIO(newline="")
    writer = csv.DictWriter(buffer, PERSONAMEM_COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return buffer.getvalue().encode()
