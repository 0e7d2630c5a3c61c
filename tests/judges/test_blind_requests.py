"""What goes over the wire does not depend on method labels, and names none."""

from __future__ import annotations

import random

from kvrelay.judging.stage import judge_records
from kvrelay.run.record import Cell, RunRecord

SELECTORS = ("snapkv", "pyramidkv", "bm25")
POSITIONS = ("original", "roperelay")
SECRETS = (*SELECTORS, *POSITIONS, "relay", "llama", "longmemeval_s", "r0.10", "run-7", "worker-3", "example-", "key-")


def records(label_order: list[int]) -> list[RunRecord]:
    """Four questions under six cells; which cell's label an answer carries is drawn from ``label_order``."""
    cells = [
        Cell(model="llama", dataset="longmemeval_s", selector=selector, retention="r0.10", position=position)
        for selector in SELECTORS
        for position in POSITIONS
    ]
    return [
        RunRecord(
            key=f"key-{question}-{label_order[i]}",
            pair_key=f"key-{question}",
            cell=cells[label_order[i]],
            run_id="run-7",
            worker="worker-3",
            example_id=f"example-{question}",
            cluster_id=f"example-{question}",
            history_id="h",
            question=f"What did I plant in bed {question}?",
            question_type="multi-session",
            question_date="2024/03/02",
            references=("Leeks",),
            status="ok",
            answer=f"Vegetable number {i // 2} grows there.",
        )
        for question in range(4)
        for i in range(len(cells))
    ]


def bodies(server, judge, given: list[RunRecord]) -> list[bytes]:
    server.asked.clear()
    judge_records(given, judge, known=set(), sink=lambda verdict: None)
    return [asked.body for asked in server.asked]


def test_permuted_labels_and_shuffled_records_send_the_same_bytes(server, settled):
    judge = settled(concurrency=1)
    sent = bodies(server, judge, records([0, 1, 2, 3, 4, 5]))
    assert len(sent) == 4 * 3
    assert bodies(server, judge, records([5, 3, 0, 4, 1, 2])) == sent
    shuffled = records([2, 0, 1, 5, 4, 3])
    random.Random(5).shuffle(shuffled)
    assert bodies(server, judge, shuffled) == sent


def test_no_request_names_a_method(server, settled):
    sent = bodies(server, settled(concurrency=4), records([0, 1, 2, 3, 4, 5]))
    for asked in server.asked:
        seen = (asked.body.decode() + asked.path + " ".join(f"{k}: {v}" for k, v in asked.headers.items())).lower()
        assert not [secret for secret in SECRETS if secret in seen]
    assert sorted(sent) == sorted(set(sent))
