"""What a file is, told by its beginning."""

from __future__ import annotations

import io
import tarfile
import zipfile

import pytest

from aioanalysis.conversion.detection import Format, detect
from aioanalysis.errors import Invalid


@pytest.mark.parametrize(
    ("head", "form"),
    [
        (b">a\nACGT\n", Format.FASTA),
        (b"\xef\xbb\xbf\n>a\nACGT\n", Format.FASTA),
        (b'{"processid":"A-26"}\n', Format.BCDM),
        (b"processid\tsampleid\tnuc\nA-26\tNone\tACGT\n", Format.DATA_PACKAGE),
        (b"processid\ttaxon_name\ttaxon_rank\r\n", Format.DATA_PACKAGE),
        (b"processid\tbin_uri\tcountry_iso\nA-26\tx\tNA\n", Format.DATA_PACKAGE),
        (b"processid\tbin_uri\tmuseumid\nA-26\tNone\tx\nB-26\tx\tNA\n", Format.DATA_PACKAGE),
        (b"processid\tbin_uri\tmuseumid\nB-26\tx\tNA\n", Format.BOLDCONNECTR),
        (b"processid\tcountry.ocean\tbin_uri\n", Format.BOLDCONNECTR),
        (b"processid,sampleid,bin_uri\n", Format.BOLDCONNECTR),
        (b'"","processid","sampleid","bin_uri"\n', Format.BOLDCONNECTR),
        (b"processid\tphylum_name\tmarkercode\tnucleotides\n", Format.V4),
        (b"processid\tsampleid\tinstitution_storing\tcatalognum\nA\tB\tM\x96\tx\n", Format.V4),
    ],
)
def test_formats_are_told_apart(head: bytes, form: Format):
    assert detect(head) is form


def zipped() -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("a.tsv", "processid\n")
    return out.getvalue()


def tarred() -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        archive.addfile(tarfile.TarInfo("a.tsv"))
    return out.getvalue()


@pytest.mark.parametrize(
    ("head", "words"),
    [
        (b"", "empty"),
        (b"\xef\xbb\xbf \n", "empty"),
        (b"<!DOCTYPE html><h1>Busy</h1>", "a page or XML"),
        (b'[{"processid":"A-26"}]', "one JSON array"),
        (b"name,value\n1,2\n", "names no columns of BOLD's exports, but 'name, value'"),
        (b"processid\n", "names no columns"),
        (b"processid;sampleid;bin_uri\n", "names no columns"),
        ("processid\tnuc\n".encode("utf-16"), "UTF-16"),
        (b"PAR1\x00\x00", "Parquet"),
        (b"BZh91AY", "bzip2"),
        (b"processid\tnuc\n\x00", "no text"),
        (b'"processid,"nuc\n', "quotes in its header"),
        (zipped(), "zip file or a spreadsheet"),
        (tarred(), "tar archive"),
    ],
)
def test_what_is_none_of_ours_is_refused_with_what_it_is(head: bytes, words: str):
    with pytest.raises(Invalid, match=words):
        detect(head)
