"""``scripts/run.py`` as a user calls it: a process of its own, its exit status and what it said."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def start(*overrides: str, script: str = "run.py", **environment: str) -> subprocess.Popen[str]:
    """A command of ``scripts/``, begun; nothing on this machine's network is asked."""
    paths = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    plain = {name: value for name, value in os.environ.items() if name not in ("HYDRA_FULL_ERROR", "KVRELAY_JUDGE_URL")}
    given = {**plain, "PYTHONPATH": paths, "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1", **environment}
    command = [sys.executable, str(ROOT / "scripts" / script), *overrides]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, cwd=ROOT, env=given)


def call(*overrides: str, script: str = "run.py", **environment: str) -> tuple[int, str, str]:
    """(exit status, stdout, stderr) of the command."""
    process = start(*overrides, script=script, **environment)
    out, err = process.communicate(timeout=240)
    return process.returncode, out, err


def smoke(folder: Path, questions: int) -> list[str]:
    """Overrides of a run on the seeded tiny model over records of our own; everything lies below ``folder``."""
    file = folder / "records.json"
    file.write_text(json.dumps([_record(index) for index in range(questions)]), encoding="utf-8")
    out = f'out="{folder / "out"}"'
    return ["experiment=smoke", f"data={file}", out, "limit=null", f"+model.tiny.cache_folder={folder / 'models'}"]


def _record(index: int) -> dict[str, object]:
    """One question in LongMemEval's schema."""
    sessions = [
        [
            {"role": "user", "content": f"Cup {index} of shelf {shelf} is blue."},
            {"role": "assistant", "content": "Noted."},
        ]
        for shelf in range(3)
    ]
    return {
        "question_id": f"q{index}",
        "question_type": "single-session-user",
        "question": f"What colour is cup {index}?",
        "answer": "blue",
        "question_date": "2023/05/30 (Tue) 23:40",
        "haystack_session_ids": ["s0", "s1", "s2"],
        "haystack_dates": ["2023/05/20 (Sat) 02:21"] * 3,
        "haystack_sessions": sessions,
        "answer_session_ids": ["s0"],
    }
