"""Lives of a judging process: each line on stdin begins one, which judges a folder until it is done or killed.

    python judging_lives.py FOLDER URL

What a life needs is imported once, and each is a process forked from here. On stdout: ``pid N`` where a life begins,
``key K`` when a verdict has been acknowledged (``append`` has returned), ``ended STATUS``.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from judge_server import MODEL

from judges.endpoint import OpenAICompatibleJudge
from kvrelay.judging.session import JudgingSettings, judge_folder
from kvrelay.run.appender import Appender
from kvrelay.run.record import Schema, Verdict


def judge_of(url: str) -> OpenAICompatibleJudge:
    return OpenAICompatibleJudge(base_url=url, model=MODEL, constraint="none", concurrency=4)


def tell(word: str, value: object) -> None:
    os.write(1, f"{word} {value}\n".encode())


def live(folder: Path, url: str) -> None:
    """What `scripts/judge.py` does in a process of its own, telling of every verdict that is on disk."""
    append = Appender.append

    def acknowledged(appender: Appender, *records: Schema) -> None:
        append(appender, *records)
        for record in records:
            if isinstance(record, Verdict):
                tell("key", record.item_key)

    Appender.append = acknowledged
    judge_folder(folder, {"judge": judge_of(url).settled("judge")}, JudgingSettings(), lambda line: None)


def main(folder: Path, url: str) -> None:
    judge_of(url).settled("judge")
    for _ in sys.stdin:
        if (pid := os.fork()) == 0:
            tell("pid", os.getpid())
            try:
                live(folder, url)
            except BaseException:
                sys.excepthook(*sys.exc_info())
                os._exit(1)
            os._exit(0)
        _, status = os.waitpid(pid, 0)
        tell("ended", os.waitstatus_to_exitcode(status))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
