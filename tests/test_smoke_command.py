"""``make smoke`` as it is typed after cloning: from configuration to table, with nothing but the repository."""

from __future__ import annotations

from pathlib import Path

from command_line import call

from kvrelay.run.store import read_manifest


def test_the_smoke_test_ends_with_a_table(tmp_path: Path) -> None:
    status, out, said = call("experiment=smoke", f'out="{tmp_path}"')
    assert status == 0, said
    assert out.endswith(f"\n{tmp_path}/smoke/report/table1.md\n") and "CHANGED" not in out
    manifest = read_manifest(tmp_path / "smoke")
    # 8 questions; the full cache at one position, six selectors at two, BM25 at a third
    assert manifest is not None and (manifest.expected, manifest.done, manifest.failed) == (112, 112, [])
