"""Alignment: as uploaded, by the built-in aligner, by MAFFT where it is installed."""

from __future__ import annotations

import stat
import sys
from pathlib import Path

import numpy as np
import pytest
from barcode import star
from barcode.alignment import MAFFT_SECONDS, AlignmentError, Estimate, align, mafft_estimate
from barcode.sequences import Bytes, read_sequence, reverse_complement, strip
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.parts import require

NOTHING = lambda done, total: None  # noqa: E731


def random_sequence(seed: int, length: int = 658) -> str:
    return "".join(np.random.default_rng(seed).choice(list("ACGT"), length))


def mutated(text: str, seed: int, share: float) -> str:
    random = np.random.default_rng(seed)
    letters = list(text)
    for place in np.flatnonzero(random.random(len(text)) < share):
        letters[place] = str(random.choice([c for c in "ACGT" if c != letters[place]]))
    return "".join(letters)


def star_aligned(*texts: str) -> list[str]:
    return [row.tobytes().decode() for row in star.align([read_sequence(text) for text in texts], NOTHING)]


def ungapped(row: Bytes) -> bytes:
    return row[row != ord("-")].tobytes()


@pytest.fixture
def no_mafft(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("barcode.alignment.shutil.which", lambda name: None)


def test_sequences_of_one_width_stay_as_uploaded_but_for_columns_of_gaps() -> None:
    found = align([read_sequence(text) for text in ("AC-G-", "A--GT")], "as_uploaded", NOTHING)
    assert [row.tobytes() for row in found.letters] == [b"ACG-", b"A-GT"]
    assert found.how == "as uploaded"


def test_different_widths_as_uploaded_are_refused_in_plain_words() -> None:
    with pytest.raises(AlignmentError, match=r"2 different widths \(3 to 5 columns\).*alignment: auto"):
        align([read_sequence(text) for text in ("ACGTA", "ACG")], "as_uploaded", NOTHING)


def test_a_sequence_without_gaps_goes_where_it_belongs() -> None:
    whole = random_sequence(1)
    parts = star_aligned(whole, mutated(whole, 2, 0.15), whole[100:500], whole[:300])
    assert [len(row) for row in parts] == [658] * 4
    assert parts[2] == "-" * 100 + whole[100:500] + "-" * 158
    assert parts[3] == whole[:300] + "-" * 358


def test_what_reaches_beyond_the_centre_stays_in_line() -> None:
    whole = random_sequence(3, 900)
    long, core, shifted = whole, whole[100:758], whole[60:700]
    rows = star_aligned(core, mutated(core, 4, 0.02), mutated(core, 5, 0.02), long, shifted)
    assert rows[3].replace("-", "") == long
    assert rows[4] == "-" * 60 + shifted + "-" * 200
    assert rows[0] == "-" * 100 + core + "-" * 142


@pytest.mark.parametrize("place", [60, 201, 330, 590])
def test_a_lost_codon_becomes_one_gap(place: int) -> None:
    whole = random_sequence(6)
    other = mutated(whole, 7, 0.1)
    lost = other[:place] + other[place + 3 :]
    rows = star_aligned(whole, mutated(whole, 8, 0.1), mutated(whole, 9, 0.1), lost)
    assert len(rows[3]) == 658
    gap = rows[3].find("---")
    assert abs(gap - place) <= 6  # where neighbouring letters are alike the place is free
    assert rows[3].count("-") == 3


def test_an_inserted_codon_opens_one_gap_in_all_others() -> None:
    whole = random_sequence(10)
    more = whole[:300] + "CCC" + whole[300:]
    rows = star_aligned(whole, mutated(whole, 11, 0.05), mutated(whole, 12, 0.05), more)
    assert [len(row) for row in rows] == [661] * 4
    assert [row.count("-") for row in rows] == [3, 3, 3, 0]


def test_the_shortcut_and_the_dynamic_programming_agree() -> None:
    whole = read_sequence(random_sequence(13))
    index = star.WordIndex(whole)
    others = [read_sequence(mutated(whole.tobytes().decode(), seed, 0.2)[30:600]) for seed in range(20)]
    for letters, programmed in zip(others, star.by_programming(others, whole), strict=True):
        short = star.on_one_diagonal(letters, whole, index)
        assert short is not None
        assert short.matched.all() == programmed.matched.all()
        assert short.slots.tolist() == programmed.slots.tolist()


@given(st.lists(st.text("ACGTNRacgt-", min_size=1, max_size=60), min_size=2, max_size=6))
@settings(max_examples=150)
def test_the_built_in_aligner_only_ever_adds_gaps(texts: list[str]) -> None:
    sequences = [strip(read_sequence(text)) for text in texts]
    rows = star.align(sequences, NOTHING)
    assert [ungapped(row) for row in rows] == [letters.tobytes() for letters in sequences]
    assert (rows != ord("-")).any(axis=0).all()


@pytest.mark.usefixtures("no_mafft")
def test_equal_sequences_are_aligned_once_and_keep_their_order() -> None:
    whole = random_sequence(14)
    texts = [whole, "--" + whole.lower() + "NN", whole[:400], whole]
    found = align([read_sequence(text) for text in texts], "auto", NOTHING)
    rows = [row.tobytes().decode() for row in found.letters]
    assert rows[0] == rows[1] == rows[3] == whole
    assert rows[2] == whole[:400] + "-" * 258
    assert found.how == star.NAME


@pytest.mark.usefixtures("no_mafft")
def test_sequences_that_are_all_alike_need_no_aligner() -> None:
    found = align([read_sequence("ACGT")] * 3, "auto", NOTHING)
    assert found.letters.shape == (3, 4)
    assert "none needed" in found.how


@pytest.mark.usefixtures("no_mafft")
def test_too_much_to_align_is_refused_with_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("barcode.alignment.MAX_CELLS", 1000)
    with pytest.raises(
        AlignmentError, match=r"2 sequences of up to 658 letters .* 1,316 cells, at most 1,000"
    ):
        align([read_sequence(random_sequence(seed)) for seed in (1, 2)], "auto", NOTHING)


def test_a_mafft_that_fails_is_told_and_the_built_in_aligner_serves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = tmp_path / "mafft"
    broken.write_text("#!/bin/sh\necho 'no space left' >&2\nexit 1\n")
    broken.chmod(broken.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    found = align([read_sequence("ACGTACGTAC"), read_sequence("ACGTACGTA")], "auto", NOTHING)
    assert found.how == star.NAME
    assert "no space left" in found.notes[0]


FAKE_MAFFT = f"""#!{sys.executable}
import sys
if "--version" in sys.argv:
    sys.exit(print("v9.99 (2026/Jan/1)", file=sys.stderr))
blocks = [block.split() for block in open(sys.argv[-1]).read().split(">")[1:]]
width = max(len(body) for _, body in blocks)
for name, body in blocks:
    text = body.lower().rjust(width, "-")
    print(">" + name, *(text[n:n + 60] for n in range(0, width, 60)), sep="\\n")
"""


def test_the_output_of_mafft_is_read_and_its_version_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "mafft"
    program.write_text(FAKE_MAFFT)
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    texts = [random_sequence(19), random_sequence(20, 200)]
    found = align([read_sequence(text) for text in texts], "auto", NOTHING)
    assert found.how == "MAFFT v9.99 --retree 2 --maxiterate 2"
    assert [row.tobytes().decode() for row in found.letters] == [texts[0], "-" * 458 + texts[1]]


def test_mafft_is_not_started_where_it_would_take_too_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "mafft"
    program.write_text("#!/bin/sh\nexit 9\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    sequences = [read_sequence(random_sequence(n)) for n in range(3)]
    assert mafft_estimate(sequences * 2000).seconds < MAFFT_SECONDS < mafft_estimate(sequences * 6000).seconds
    monkeypatch.setattr("barcode.alignment.MAFFT_SECONDS", 0.001)
    told: list[Estimate] = []
    found = align(sequences, "auto", NOTHING, start=told.append)
    assert found.how == star.NAME
    assert "MAFFT would need about" in found.notes[0]
    assert [estimate.what for estimate in told] == ["3 different sequences to align"]


def test_an_alignment_that_cannot_be_had_in_time_is_refused_before_it_begins() -> None:
    class TooLongError(Exception):
        pass

    def refuse(estimate: Estimate) -> None:
        assert estimate.memory_bytes > 64 << 20
        raise TooLongError(estimate.what)

    with pytest.raises(TooLongError, match="2 different sequences"):
        align([read_sequence(random_sequence(n)) for n in (1, 2, 2)], "auto", NOTHING, start=refuse)


def test_mafft_keeps_letters_and_order() -> None:
    require("mafft")
    whole = random_sequence(15)
    texts = [whole[:300] + "RYN" + whole[303:], mutated(whole, 16, 0.1)[20:], whole[:200] + whole[203:]]
    found = align([read_sequence(text) for text in texts], "auto", NOTHING)
    assert found.how.startswith("MAFFT v")
    assert [ungapped(row).decode() for row in found.letters] == texts


def test_a_reversed_sequence_is_recognised() -> None:
    centre = read_sequence(random_sequence(17))
    assert star.looks_reversed(reverse_complement(centre), centre)
    assert not star.looks_reversed(centre, centre)
    assert not star.looks_reversed(read_sequence(random_sequence(18)), centre)
