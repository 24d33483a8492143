"""Nucleotide sequences as bytes and as codes; known bases are A, C, G and T (U is T), whatever their case."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Bytes = NDArray[np.uint8]

A, C, G, T, AMBIGUOUS, GAP = range(6)
_GAPS = b"-.~"

_CODES = np.full(256, AMBIGUOUS, np.uint8)
for _code, _letters in enumerate((b"Aa", b"Cc", b"Gg", b"TtUu")):
    _CODES[list(_letters)] = _code
_CODES[list(_GAPS)] = GAP

_LETTERS = np.full(256, ord("N"), np.uint8)  # whatever is no letter of the alphabet is an unknown base
for _letter in b"ACGTRYSWKMBDHVN":
    _LETTERS[[_letter, _letter + 32]] = _letter
_LETTERS[list(b"Uu")] = ord("T")
_LETTERS[list(_GAPS)] = ord("-")

_COMPLEMENT = np.arange(256, dtype=np.uint8)
_COMPLEMENT[list(b"ACGTRYSWKMBDHVN-")] = list(b"TGCAYRSWMKVHDBN-")

_EXPECTED = np.zeros(256, np.bool_)
_EXPECTED[list(b"ACGTURYSWKMBDHVNacgturyswkmbdhvn-.~*?")] = True


def read_sequence(text: str) -> Bytes:
    """Upper-case letters and `-`, blanks and line breaks removed; what is no IUPAC letter reads as N."""
    compact = "".join(text.split())
    return _LETTERS[np.frombuffer(compact.encode("ascii", "replace"), np.uint8)]


def encode(letters: Bytes) -> Bytes:
    """Codes 0 to 3 for A, C, G, T, 4 for any other letter, 5 for a gap; any shape."""
    return _CODES[letters]


def strip(letters: Bytes) -> Bytes:
    """Without gaps and without the N that pad both ends."""
    letters = letters[letters != ord("-")]
    inner = np.flatnonzero(letters != ord("N"))
    return letters[inner[0] : inner[-1] + 1] if inner.size else letters[:0]


def reverse_complement(letters: Bytes) -> Bytes:
    return _COMPLEMENT[letters[::-1]]


def unexpected(text: str) -> int:
    """How many characters are neither IUPAC letters nor gap or stop signs."""
    compact = "".join(text.split())
    return int(np.count_nonzero(~_EXPECTED[np.frombuffer(compact.encode("ascii", "replace"), np.uint8)]))


def known_bases(letters: Bytes) -> int:
    return int(np.count_nonzero(encode(letters) < AMBIGUOUS))


def ambiguous_percent(letters: Bytes) -> float:
    """Of the letters between the padding, how many per cent are not A, C, G or T."""
    inner = strip(letters)
    return 100.0 * (inner.size - known_bases(inner)) / inner.size if inner.size else 100.0
