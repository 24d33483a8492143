"""`aioanalysis records convert`: files in, one file out, whatever is wrong with them."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from click.testing import Result
from typer.testing import CliRunner

from aioanalysis.cli import app
from aioanalysis.errors import AnalysisError, Invalid

PACKAGE = (
    "processid\tmarker_code\tnuc\tcountry_iso\tnotes\n"
    "A-26\tCOI-5P\tACGT\tNA\tNone\n"
    "B-26\tCOI-5P\tAC\tCA\tGuenÃ©e\n"
)
BAD = PACKAGE + "C-26\tCOI-5P\n"
FASTA = ">D-26|Aus bus|COI-5P\nACGT\n"
RECORDS: list[dict[str, Any]] = [
    {
        "processid": "A-26",
        "record_id": "A-26.COI-5P",
        "marker_code": "COI-5P",
        "nuc": "ACGT",
        "nuc_basecount": 4,
        "country_iso": "NA",
    },
    {
        "processid": "B-26",
        "record_id": "B-26.COI-5P",
        "marker_code": "COI-5P",
        "nuc": "AC",
        "nuc_basecount": 2,
        "country_iso": "CA",
        "notes": "GuenÃ©e",
    },
]


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, ["records", "convert", *map(str, arguments)], catch_exceptions=False)


def lines(path: Path) -> list[Any]:
    data = path.read_bytes()
    plain = gzip.decompress(data) if path.suffix == ".gz" else data
    return [json.loads(line) for line in plain.splitlines()]


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "out" / "records.jsonl"


@pytest.fixture
def package(tmp_path: Path, out: Path) -> Path:
    out.parent.mkdir()
    path = tmp_path / "package.tsv"
    path.write_text(PACKAGE)
    return path


def test_files_of_several_formats_become_one(package: Path, out: Path):
    fasta = package.with_name("more.fas.gz")
    fasta.write_bytes(gzip.compress(FASTA.encode()))
    result = run(package, fasta, "-o", out)
    assert result.exit_code == 0
    assert [record["processid"] for record in lines(out)] == ["A-26", "B-26", "D-26"]
    assert lines(out)[:2] == RECORDS
    assert f"{package}: data-package, 2 records, 0 lines not read" in result.output
    assert f"{fasta}: fasta, 1 records, 0 lines not read" in result.output
    assert "3 records in" in result.output
    assert "double_encoded" in result.output
    assert list(out.parent.iterdir()) == [out]


def test_an_output_named_gz_is_gzip_and_the_same_every_time(package: Path, out: Path):
    packed = out.with_name("records.jsonl.gz")
    assert run(package, "-o", packed).exit_code == 0
    first = packed.read_bytes()
    assert lines(packed) == RECORDS
    assert run(package, "-o", packed).exit_code == 0
    assert packed.read_bytes() == first


def test_lines_that_cannot_be_read_are_reported_and_the_exit_code_says_so(package: Path, out: Path):
    package.write_text(BAD)
    report = out.with_name("report.jsonl")
    result = run(package, "-o", out, "--report", report)
    assert result.exit_code == 1
    assert lines(out) == RECORDS
    assert lines(report) == [
        {
            "file": str(package),
            "line": 3,
            "weight": "doubt",
            "kind": "double_encoded",
            "field": "notes",
            "value": "GuenÃ©e",
        },
        {
            "file": str(package),
            "line": 4,
            "weight": "unread",
            "kind": "columns",
            "value": "C-26\tCOI-5P",
            "detail": "2 columns instead of 5",
        },
    ]
    assert "1 lines could not be read" in result.output
    assert f"{report} names them" in result.output.replace("\n", "")


def test_json_tells_counts_by_kind_and_field(package: Path, out: Path):
    package.write_text(BAD)
    result = run(package, "-o", out, "--json")
    assert result.exit_code == 1
    told = json.loads(result.output)
    (file,) = told.pop("files")
    assert told == {"output": str(out), "records": 2, "unread": 1}
    counts = file.pop("counts")
    assert file == {"file": str(package), "format": "data-package", "records": 2, "unread": 1}
    assert {"kind": "missing", "weight": "routine", "field": "notes", "count": 1} in counts
    assert {"kind": "columns", "weight": "unread", "field": None, "count": 1} in counts
    assert {"kind": "derived", "weight": "routine", "field": "record_id", "count": 2} in counts


def test_a_format_can_be_forced(package: Path, out: Path):
    assert run(package, "-o", out, "--format", "boldconnectr").exit_code == 0
    assert lines(out)[0] == RECORDS[0]
    assert run(package, "-o", out, "--format", "nonsense").exit_code == 2


def test_a_marker_can_be_given(package: Path, out: Path):
    package.write_text(">x\nACGT\n")
    assert run(package, "-o", out, "--marker", "COI-5P").exit_code == 0
    assert lines(out)[0]["record_id"] == "x.COI-5P"


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (gzip.compress(PACKAGE.encode() * 1000)[:-9], "gzip data is damaged or ends early"),
        (gzip.compress(PACKAGE.encode())[:-8] + b"\0" * 8, "gzip data is damaged or ends early"),
        (b"<html>Busy</html>", "cannot be converted: it is a page"),
        (b"", "it is empty"),
        (b"name\tvalue\n", "names no columns"),
    ],
)
def test_a_file_that_is_none_leaves_no_output(package: Path, out: Path, data: bytes, words: str):
    other = package.with_name("other")
    other.write_bytes(data)
    with pytest.raises(Invalid, match=words) as error:
        run(package, other, "-o", out)
    assert str(other) in str(error.value)
    assert list(out.parent.iterdir()) == []


def test_a_failed_conversion_leaves_an_older_output_as_it_was(package: Path, out: Path):
    out.write_text("older\n")
    package.write_bytes(b"")
    with pytest.raises(Invalid):
        run(package, "-o", out)
    assert out.read_text() == "older\n"


def test_files_that_are_not_there_are_named(package: Path, out: Path):
    with pytest.raises(Invalid, match=r"gone\.tsv: No such file"):
        run(package.with_name("gone.tsv"), "-o", out)
    with pytest.raises(Invalid, match=r"cannot be written: No such file"):
        run(package, "-o", out.parent / "none" / "x.jsonl")


@pytest.mark.parametrize("place", ["output", "report", "both"])
def test_nothing_is_written_over_its_own_input(package: Path, out: Path, place: str):
    arguments = {
        "output": [package, "-o", package],
        "report": [package, "-o", out, "--report", package],
        "both": [package, "-o", out, "--report", out],
    }[place]
    with pytest.raises(Invalid, match="named twice"):
        run(*arguments)
    assert package.read_text() == PACKAGE


def test_a_pipe_may_be_read_and_a_device_written(package: Path, out: Path):
    pipe = package.with_name("pipe")
    os.mkfifo(pipe)
    writer = Thread(target=pipe.write_bytes, args=[gzip.compress(PACKAGE.encode())])
    writer.start()
    assert run(pipe, "-o", out).exit_code == 0
    writer.join()
    assert lines(out) == RECORDS
    assert run(package, "-o", "/dev/null").exit_code == 0
    assert not Path("/dev/null").is_file()


def test_a_full_disk_is_the_outputs_fault(package: Path):
    if not Path("/dev/full").exists():
        pytest.skip("needs /dev/full")
    package.write_text(PACKAGE + "E-26\tCOI-5P\t" + "A" * 1_000_000 + "\tNA\tx\n")
    with pytest.raises(Invalid, match="/dev/full cannot be written: No space left"):
        run(package, "-o", "/dev/full")


def test_a_large_file_takes_little_memory(package: Path, out: Path):
    import tracemalloc

    row = "A-26\tCOI-5P\t" + "ACGT" * 5_000 + "\tNA\tNone\n"
    package.write_text(PACKAGE.partition("\n")[0] + "\n" + row * 2_000)
    tracemalloc.start()
    assert run(package, "-o", out).exit_code == 0
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(lines(out)) == 2_000
    assert peak < 12 * 1024 * 1024


def test_errors_are_one_line_and_the_exit_code_is_that_of_a_refusal(package: Path, out: Path):
    package.write_bytes(b"")
    command = [sys.executable, "-m", "aioanalysis", "records", "convert", str(package), "-o", str(out)]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 1
    assert ended.stderr == f"aioanalysis: {package} cannot be converted: it is empty\n"
    assert issubclass(Invalid, AnalysisError)


def test_a_recordset_code_is_added_to_what_records_have(tmp_path: Path, out: Path) -> None:
    out.parent.mkdir()
    source = tmp_path / "records.jsonl"
    held = [{"bold_recordset_code_arr": ["DS-ONE"]}, {"bold_recordset_code_arr": ["MINE"]}, {}]
    source.write_text("".join(json.dumps({**RECORDS[0], **one}) + "\n" for one in held))
    assert run(source, "--recordset", "MINE", "-o", out).exit_code == 0
    codes = [record["bold_recordset_code_arr"] for record in lines(out)]
    assert codes == [["DS-ONE", "MINE"], ["MINE"], ["MINE"]]
