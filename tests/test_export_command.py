"""``scripts/export.py`` as a user calls it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def export(*overrides: str) -> tuple[int, str, str]:
    plain = {name: value for name, value in os.environ.items() if name != "HYDRA_FULL_ERROR"}
    given = {**plain, "PYTHONPATH": str(ROOT / "src"), "HF_HUB_OFFLINE": "1"}
    command = [sys.executable, str(ROOT / "scripts" / "export.py"), *overrides]
    done = subprocess.run(command, cwd=ROOT, env=given, capture_output=True, text=True, timeout=240)
    return done.returncode, done.stdout, done.stderr


def test_the_path_is_all_that_stdout_holds(tmp_path: Path) -> None:
    folder = tmp_path / "out of tiny"
    asked = ["model=tiny", f"to='{folder}'", f"+model.tiny.cache_folder='{tmp_path / 'models'}'"]
    status, out, err = export(*asked)
    assert (status, out) == (0, f"{folder}\n") and "tiny: written" in err
    assert (folder / "model.safetensors").is_file() and (folder / "tokenizer.json").is_file()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "notes.txt").write_text("mine")
    status, out, err = export(*asked[::2], f"to='{tmp_path / 'elsewhere'}'")
    assert status == 3 and out == "" and "notes.txt" in err and "Traceback" not in err


def test_a_folder_and_one_model_are_wanted(tmp_path: Path) -> None:
    status, out, err = export("model=tiny")
    assert status == 2 and out == "" and "mandatory value: to" in err
    status, out, err = export("model=[tiny,smollm2]", f"to='{tmp_path / 'out'}'")
    assert status == 2 and "wanted one model" in err and not (tmp_path / "out").exists()
