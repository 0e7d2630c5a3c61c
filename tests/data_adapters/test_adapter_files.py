"""Where data files come from, and how they are read: every way in which a file can be missing or damaged."""

from __future__ import annotations

import csv
import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from data_adapters.fields import Fields
from data_adapters.files import Source, fingerprint
from data_adapters.parse import records, require_columns, table
from data_adapters.subset import draw, require_choice, require_positive
from kvrelay.core.errors import AssetError, ConfigError, DataError

NAMES = ("first.json", "second.json")


def source(path: Path | str | None, hub_id: str = "some/set", revision: str | None = None) -> Source:
    return Source(setting="dataset.x.path", path=None if path is None else str(path), hub_id=hub_id, revision=revision)


def test_a_file_is_taken_whatever_its_name(tmp_path: Path) -> None:
    file = tmp_path / "mine.txt"
    file.write_text("[]")
    assert source(file).file(NAMES) == file


def test_a_folder_gives_the_first_known_name_and_its_own_files_before_those_below(tmp_path: Path) -> None:
    (tmp_path / "below").mkdir()
    (tmp_path / "below" / "first.json").write_text("[]")
    assert source(tmp_path).file(NAMES) == tmp_path / "below" / "first.json"
    (tmp_path / "second.json").write_text("[]")
    assert source(tmp_path).file(NAMES) == tmp_path / "second.json"
    (tmp_path / "first.json").write_text("[]")
    assert source(tmp_path).file(NAMES) == tmp_path / "first.json"


def test_a_name_in_two_subfolders_is_refused(tmp_path: Path) -> None:
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "first.json").write_text("[]")
    with pytest.raises(
        AssetError, match=r"dataset\.x\.path=.*first\.json is there twice.*a/first\.json.*b/first\.json"
    ):
        source(tmp_path).file(NAMES)


def test_a_folder_without_the_file_names_what_it_holds(tmp_path: Path) -> None:
    (tmp_path / "other.json").write_text("[]")
    with pytest.raises(AssetError, match=r"none of first\.json, second\.json is in this folder.*It holds: other\.json"):
        source(tmp_path).file(NAMES)


def test_a_missing_path_names_the_setting_to_change(tmp_path: Path) -> None:
    with pytest.raises(AssetError, match=r"dataset\.x\.path=.*gone: no such file or folder.*set dataset\.x\.path="):
        source(tmp_path / "gone").file(NAMES)


@pytest.fixture
def offline(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The hub's own offline switch, read by its libraries at import, and an empty cache."""
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "empty"))
    monkeypatch.setattr("datasets.config.HF_HUB_OFFLINE", True)
    monkeypatch.setattr("datasets.config.HF_DATASETS_CACHE", tmp_path / "empty")


@pytest.mark.usefixtures("offline")
def test_without_a_network_one_error_says_what_to_do() -> None:
    wanted = (
        r"cannot get first\.json, second\.json of hub dataset some/set \(revision main\): LocalEntryNotFoundError: .*"
        r"HF_HUB_OFFLINE is set.*set dataset\.x\.path=<file or folder> \(make: DATA=<file or folder>\)"
    )
    with pytest.raises(AssetError, match=wanted) as caught:
        source(None).file(NAMES)
    assert "\n" not in str(caught.value) and caught.value.exit_code == 3


@pytest.mark.usefixtures("offline")
def test_without_a_network_rows_fail_with_the_same_advice() -> None:
    with pytest.raises(AssetError, match=r"cannot get split 'test' of hub dataset some/set.*set dataset\.x\.path="):
        source(None).rows("test")


def test_the_hub_is_asked_for_each_name_at_the_revision(monkeypatch: pytest.MonkeyPatch) -> None:
    from huggingface_hub.errors import EntryNotFoundError

    asked = []

    def download(repo: str, *, filename: str, **kwargs: object) -> str:
        asked.append((repo, filename, kwargs))
        if filename == "first.json":
            raise EntryNotFoundError("404")
        return f"/cache/{filename}"

    monkeypatch.setattr("huggingface_hub.hf_hub_download", download)
    assert source(None, revision="abc").file(NAMES) == Path("/cache/second.json")
    where = {"repo_type": "dataset", "revision": "abc", "local_files_only": False}
    assert asked == [("some/set", "first.json", where), ("some/set", "second.json", where)]


def test_once_the_hub_is_away_only_the_cache_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    from huggingface_hub.errors import LocalEntryNotFoundError

    tries = []

    def download(repo: str, *, filename: str, local_files_only: bool, **kwargs: object) -> str:
        tries.append((filename, local_files_only))
        if filename == "third.json":
            return "/cache/third.json"
        raise LocalEntryNotFoundError("not cached" if local_files_only else "no connection")

    monkeypatch.setattr("huggingface_hub.hf_hub_download", download)
    assert source(None).file((*NAMES, "third.json")) == Path("/cache/third.json")
    assert tries == [("first.json", False), ("second.json", True), ("third.json", True)]
    with pytest.raises(AssetError, match="no connection"):
        source(None).file(NAMES)


def test_a_repository_without_the_file_names_what_it_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    from huggingface_hub.errors import RemoteEntryNotFoundError

    def download(repo: str, *, filename: str, **kwargs: object) -> str:
        raise RemoteEntryNotFoundError("404", response=SimpleNamespace(headers={}, request=None))  # type: ignore[arg-type]

    monkeypatch.setattr("huggingface_hub.hf_hub_download", download)
    monkeypatch.setattr("huggingface_hub.HfApi.list_repo_files", lambda *args, **kwargs: ["renamed.json", "README.md"])
    with pytest.raises(AssetError, match=r"the repository holds renamed\.json, README\.md"):
        source(None).file(NAMES)


def test_rows_come_from_one_split_at_the_revision(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("datasets.load_dataset", lambda hub_id, **kwargs: [{"asked": (hub_id, *kwargs.items())}])
    rows = source(None, revision="abc").rows("test")
    assert rows == [{"asked": ("some/set", ("split", "test"), ("revision", "abc"))}]


def test_fingerprint_is_the_published_sha256_of_one_file_and_orders_several(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    one.write_bytes(b"abc")
    two.write_bytes(b"")
    digest = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    assert fingerprint([one]) == digest
    both = hashlib.sha256(f"{digest}\n{hashlib.sha256(b'').hexdigest()}".encode()).hexdigest()
    assert fingerprint([one, two]) == both != fingerprint([two, one])
    with pytest.raises(AssetError, match="gone: cannot be read"):
        fingerprint([tmp_path / "gone"])


NASTY = [
    {"text": 'a "quoted" ] } , [ {\\', "n": -1.5e3, "none": None, "yes": True},
    {"surrogates": "\U0001f600 \u2028 é", "nested": [[], [{}], [1, [2, [3]]]]},
    {},
    {"long": "x" * 100},
]


@pytest.mark.parametrize("chunk_chars", [1, 2, 3, 7, 64, 1 << 20])
@pytest.mark.parametrize("indent", [None, 2])
@pytest.mark.parametrize("ascii_only", [True, False])
def test_an_array_is_read_the_same_at_any_chunk_size(
    tmp_path: Path, chunk_chars: int, indent: int | None, ascii_only: bool
) -> None:
    file = tmp_path / "array.json"
    file.write_text(json.dumps(NASTY, indent=indent, ensure_ascii=ascii_only), encoding="utf-8")
    assert [record.values for record in records(file, chunk_chars)] == NASTY
    assert [record.where for record in records(file, chunk_chars)] == [f"{file}: record {i}" for i in range(4)]


def test_a_genuine_array_is_read_as_json_reads_it(samples: Path) -> None:
    file = samples / "longmemeval" / "longmemeval_oracle_12records_reconstructed.json"
    assert [record.values for record in records(file, 5000)] == json.loads(file.read_text(encoding="utf-8"))


@pytest.mark.parametrize("chunk_chars", [5, 1 << 20])
def test_an_array_cut_off_anywhere_is_an_error(tmp_path: Path, chunk_chars: int) -> None:
    file = tmp_path / "cut.json"
    text = json.dumps(NASTY[:2])
    for length in range(len(text)):
        file.write_text(text[:length])
        with pytest.raises(DataError, match=r"cut\.json"):
            list(records(file, chunk_chars))


def test_a_cut_off_record_is_named_after_the_whole_ones_before_it(tmp_path: Path) -> None:
    file = tmp_path / "cut.json"
    file.write_text('[{"a": 1}, {"b": "unfin')
    reader = records(file)
    assert next(reader).values == {"a": 1}
    with pytest.raises(DataError, match=r"cut\.json: record 1: not valid JSON \(Unterminated.*may be cut off"):
        next(reader)


def test_damage_far_from_the_end_is_reported_without_reading_on(tmp_path: Path) -> None:
    file = tmp_path / "bad.json"
    file.write_bytes(b'[{"a": nonsense, "b": "' + b"x" * 20_000 + b'"}, {"c": "\xff"}]')
    with pytest.raises(DataError, match="record 0: not valid JSON"):
        list(records(file, 64))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the file is empty"),
        (" \n", "the file is empty"),
        ("question,answer\n", "starts with 'q', wanted a JSON array or JSON lines"),
        ("[1]", "record 0: is int, wanted an object"),
        ('[{"a": 1} {"a": 2}]', "record 0 is followed by {, wanted , or ]"),
        ('{"a": 1}\n{"a": ', r"line 2: not valid JSON .* the line may be cut off"),
        ('{"a": 1}\n\n[2]\n', "line 3: is list, wanted an object"),
    ],
)
def test_wrong_json_files(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "wrong.json"
    file.write_text(text)
    with pytest.raises(DataError, match=rf"wrong\.json: .*{message}"):
        list(records(file))


def test_lines_may_be_blank_and_the_file_may_open_with_a_byte_order_mark(tmp_path: Path) -> None:
    file = tmp_path / "lines.jsonl"
    file.write_bytes(b'\xef\xbb\xbf{"a": 1}\n\n{"a": 2}')
    assert [(record.where, record.values) for record in records(file)] == [
        (f"{file}: line 1", {"a": 1}),
        (f"{file}: line 3", {"a": 2}),
    ]


@pytest.mark.parametrize("name", ["bad.json", "bad.jsonl", "bad.csv"])
def test_other_encodings_are_refused(tmp_path: Path, name: str) -> None:
    file = tmp_path / name
    file.write_bytes('{"a": "é"}'.encode("latin-1"))
    with pytest.raises(DataError, match=rf"{name}: not UTF-8 \(byte 0xe9"):
        list(table(file) if name.endswith("csv") else records(file))


def test_parquet_rows(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    rows = [{"id": 1, "sessions": [["a", "b"], []]}, {"id": 2, "sessions": [["c"]]}]
    parquet.write_table(pyarrow.Table.from_pylist(rows), tmp_path / "rows.parquet")
    assert [record.values for record in records(tmp_path / "rows.parquet")] == rows
    (tmp_path / "rows.parquet").write_bytes(b"PAR1 no more")
    with pytest.raises(DataError, match=r"rows\.parquet: not a readable Parquet file"):
        list(records(tmp_path / "rows.parquet"))


def test_table_rows_with_quotes_and_line_breaks(tmp_path: Path) -> None:
    file = tmp_path / "table.csv"
    with file.open("w", newline="", encoding="utf-8") as stream:
        csv.writer(stream).writerows([["a", "b"], ['say "x"', "two\nlines"], ["", "é"]])
    assert [row.values for row in table(file)] == [{"a": 'say "x"', "b": "two\nlines"}, {"a": "", "b": "é"}]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the file has no rows"),
        ("a,b\n", "the file has no rows"),
        ("a,b\n1,2\n3\n", "row 2: not as many values as the header's 2"),
        ("a,b\n1,2,3\n", "row 1: not as many values as the header's 2"),
        ('a,b\n1,2\n3,"cut', r"after row 1: not valid CSV .* may be cut off"),
    ],
)
def test_wrong_tables(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "wrong.csv"
    file.write_text(text)
    with pytest.raises(DataError, match=rf"wrong\.csv: {message}"):
        table(file)


def test_all_missing_columns_are_named_at_once() -> None:
    with pytest.raises(DataError, match="here: columns missing: b, d; found: a, c"):
        require_columns(Fields("here", {"a": "", "c": ""}), ["a", "b", "c", "d"])


@pytest.mark.parametrize(
    ("read", "message"),
    [
        (lambda f: f.text("gone"), "field 'gone' is missing; the record has s, n, l, o, e, b"),
        (lambda f: f.text("n"), "field 'n' is int, wanted a str"),
        (lambda f: f.name("e"), "field 'e' is empty"),
        (lambda f: f.integer("s"), r"field 's' is 'x' \(str\), wanted an int"),
        (lambda f: f.integer("b"), r"field 'b' is True \(bool\), wanted an int"),
        (lambda f: f.items("o"), "field 'o' is null, wanted a list"),
        (lambda f: f.texts("l"), r"field 'l\[1\]' is int, wanted a str"),
        (lambda f: f.parts("l"), r"field 'l\[0\]' is str, wanted an object"),
    ],
)
def test_fields_name_place_key_and_type(read: Callable[[Fields], object], message: str) -> None:
    fields = Fields("file: record 3", {"s": "x", "n": 1, "l": ["a", 2], "o": None, "e": " ", "b": True})
    with pytest.raises(DataError, match=f"file: record 3: {message}"):
        read(fields)


def test_integers_may_be_written_as_digits() -> None:
    assert Fields("", {"a": "182"}).integer("a") == Fields("", {"a": 182}).integer("a") == 182


def test_a_sample_ignores_order_and_nests() -> None:
    ids = [f"q{i}" for i in range(50)]
    small, large = draw(ids, 5, 7), draw(ids, 20, 7)
    assert len(small) == 5 and len(large) == 20 and small < large
    assert draw(ids[::-1], 5, 7) == small != draw(ids, 5, 8)
    assert draw(ids, 5, None) == set(ids[:5])
    assert draw(ids, None, 7) == draw(ids, 99, 7) == set(ids)
    assert small == set(sorted(ids, key=lambda q: hashlib.sha256(f"7\n{q}".encode()).hexdigest())[:5])


def test_settings_out_of_range_name_their_key() -> None:
    require_positive("dataset.x.limit", None)
    require_positive("dataset.x.limit", 1)
    for bad in (0, -3, True, "5"):
        with pytest.raises(ConfigError, match=r"dataset\.x\.limit="):
            require_positive("dataset.x.limit", bad)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match=r"dataset\.x\.unit='turn': wanted one of session, round"):
        require_choice("dataset.x.unit", "turn", ("session", "round"))
