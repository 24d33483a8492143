"""Nearest sequences of a library: candidates by shared words (or another program), then p-distances.

A candidate goes onto the diagonal that most of its words share with the query; where another diagonal has
support too, or a stretch does not fit, both are aligned by dynamic programming. Identity is 100 (1 - p) over
the sites where both have A, C, G or T: the same number whichever program found the candidate.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .sequences import AMBIGUOUS, Bytes, encode
from .star import BATCH_CELLS, END, END_MOST, WINDOW, WINDOW_MOST, by_programming

Ints = NDArray[np.int64]
CANDIDATES = 100
ALIGNED = 10  # candidates of little likeness aligned by programming for one query, the likeliest first
NEAR = 0.1  # share of differences up to which a few of them together are a sign of a gap
NEAR_WINDOW_MOST, NEAR_ENDS = 12, ((6, 3), (8, 3), (12, 4), (18, 6), (24, 8))  # letters, and most differences
PLACING = 8  # length of the words that place a candidate on a diagonal


@dataclass(frozen=True, kw_only=True, slots=True)
class Hits:
    """Library sequences with known common sites, by number; arrays of one length."""

    target: Ints
    sites: Ints
    differences: Ints

    @property
    def identity(self) -> NDArray[np.float64]:
        """Per cent."""
        return 100.0 * (self.sites - self.differences) / self.sites


def words(codes: Bytes, size: int) -> Ints:
    """The word of `size` bases that begins at each position as a number, -1 with an unknown base in it."""
    count = codes.size - size + 1
    if count <= 0:
        return np.zeros(0, np.int64)
    number, unknown = np.zeros(count, np.int64), np.zeros(count, np.bool_)
    for shift in range(size):
        piece = codes[shift : shift + count]
        number = number * 4 + np.minimum(piece, 3)
        unknown |= piece >= AMBIGUOUS
    return np.where(unknown, -1, number)


class Library:
    """Ungapped sequences, one after the other in one array."""

    def __init__(self, sequences: Sequence[Bytes]) -> None:
        self.letters = list(sequences)
        lengths = np.array([one.size for one in sequences], np.int64)
        self.ends = np.cumsum(lengths)
        self.starts, self.lengths = self.ends - lengths, lengths
        self.codes = encode(np.concatenate(sequences)) if sequences else np.zeros(0, np.uint8)
        self.placing = np.full(self.codes.size, -1, np.int32)  # the word that begins at each letter
        for start, end in zip(self.starts.tolist(), self.ends.tolist(), strict=True):
            found = words(self.codes[start:end], PLACING)
            self.placing[start : start + found.size] = found
        self.indexes: dict[int, WordIndex] = {}

    def index(self, size: int) -> WordIndex:
        if size not in self.indexes:
            self.indexes[size] = WordIndex(self, size)
        return self.indexes[size]

    def compare(self, query: Bytes, targets: Ints, min_overlap: int, floor: float = 0.0) -> Hits:
        """The query with each target; no hits are those with fewer common sites, or without a clear place.

        What cannot reach an identity of `floor` (%) by its words is not aligned: it need not be a hit.
        """
        if not targets.size:
            return Hits(target=targets, sites=targets, differences=targets)
        codes = encode(query)
        sites, differences, clear, shared = self.on_diagonals(codes, targets)
        unclear = np.flatnonzero(~clear)
        unlike = 1 - floor / 100
        wanted = (1 - PLACING * unlike) * sites[unclear] / 2
        unclear = unclear[shared[unclear] >= wanted] if unlike < 1 / PLACING else unclear[:ALIGNED]
        size = max(1, BATCH_CELLS // ((int(self.lengths[targets].max()) + 1) * (query.size + 1)))
        for start in range(0, unclear.size, size):
            batch = unclear[start : start + size]
            pieces = [self.letters[targets[n]] for n in batch.tolist()]
            for n, letters, place in zip(batch.tolist(), pieces, by_programming(pieces, query), strict=True):
                theirs, mine = encode(letters)[place.matched], codes[place.slots[place.matched]]
                known = (theirs < AMBIGUOUS) & (mine < AMBIGUOUS)
                sites[n], differences[n], clear[n] = known.sum(), (known & (theirs != mine)).sum(), True
        good = clear & (sites >= min_overlap)
        return Hits(target=targets[good], sites=sites[good], differences=differences[good])

    def on_diagonals(self, query: Bytes, targets: Ints) -> tuple[Ints, Ints, NDArray[np.bool_], Ints]:
        """Of each: sites, differences, whether the place without gaps is clearly right, shared words."""
        diagonal, clear, shared = self.diagonals(query, targets)
        places = np.arange(query.size)[None, :] - diagonal[:, None]  # of each query base in the target
        inside = (places >= 0) & (places < self.lengths[targets][:, None])
        theirs = self.codes[np.where(inside, self.starts[targets][:, None] + places, 0)]
        known = inside & (theirs < AMBIGUOUS) & (query < AMBIGUOUS)[None, :]
        differs = known & (theirs != query[None, :])
        sums = np.zeros((targets.size, query.size + 1), np.int64)
        np.cumsum(differs, axis=1, out=sums[:, 1:])
        sites = known.sum(axis=1)
        near = sums[:, -1] <= NEAR * sites
        if query.size >= WINDOW:
            dense = (sums[:, WINDOW:] - sums[:, :-WINDOW]).max(axis=1)
            clear &= dense <= np.where(near, NEAR_WINDOW_MOST, WINDOW_MOST)
        begin = np.maximum(diagonal, 0)
        stop = np.clip(diagonal + self.lengths[targets], 0, query.size)
        clear &= stop - begin >= np.minimum(50, np.minimum(self.lengths[targets], query.size) // 2)
        rows = np.arange(targets.size)
        for length, most, of in ((END, END_MOST, ~near), *((*one, near) for one in NEAR_ENDS)):
            for edge in (np.minimum(begin, query.size), np.maximum(stop - length, 0)):
                found = sums[rows, np.minimum(edge + length, query.size)] - sums[rows, edge]
                clear &= ~of | (found <= most)
        return sites, sums[:, -1].copy(), clear, shared

    def diagonals(self, query: Bytes, targets: Ints) -> tuple[Ints, NDArray[np.bool_], Ints]:
        """Query place minus target place of most shared words, whether no other comes near, shared words."""
        found = words(query, PLACING)
        values, first, counts = np.unique(found, return_index=True, return_counts=True)
        position = np.full(4**PLACING + 1, -1, np.int64)  # the last one is for words with an unknown base
        once = (counts == 1) & (values >= 0)
        position[values[once]] = first[once]
        lengths = self.lengths[targets]
        longest = int(lengths.max())
        span = query.size + longest
        tally = np.zeros((targets.size, span), np.int32)
        for row, target in enumerate(targets.tolist()):
            mine = position[self.placing[self.starts[target] : self.ends[target]]]
            shared = np.flatnonzero(mine >= 0)
            tally[row] = np.bincount(mine[shared] - shared + longest, minlength=span)
        rows = np.arange(targets.size)
        words_shared = tally.sum(axis=1)
        best = tally.argmax(axis=1)
        most = tally[rows, best]
        tally[rows, best] = 0
        single = (most > 0) & (tally.max(axis=1) < np.maximum(12, most // 2))
        return best - longest, single, words_shared


class WordIndex:
    """In which sequences of a library each word occurs."""

    def __init__(self, library: Library, size: int) -> None:
        self.size, self.count = size, len(library.letters)
        parts, owners = [], []
        bounds = zip(library.starts.tolist(), library.ends.tolist(), strict=True)
        for number, (start, end) in enumerate(bounds):
            found = np.unique(words(library.codes[start:end], size))
            found = found[found >= 0]
            parts.append(found)
            owners.append(np.full(found.size, number, np.int32))
        everything = np.concatenate(parts) if parts else np.zeros(0, np.int64)
        order = np.argsort(everything, kind="stable")
        self.owners = (np.concatenate(owners) if owners else np.zeros(0, np.int32))[order]
        self.bounds = np.searchsorted(everything[order], np.arange(4**size + 1)).astype(np.int64)

    def candidates(self, query: Bytes, most: int = CANDIDATES, *, but: int = -1) -> tuple[Ints, int]:
        """The sequences that share most different words with the query, and how many the first shares.

        Equal ones are in the library's order; `but` is left out.
        """
        found = np.unique(words(encode(query), self.size))
        found = found[found >= 0]
        pieces = [self.owners[self.bounds[word] : self.bounds[word + 1]] for word in found.tolist()]
        if not pieces:
            return np.zeros(0, np.int64), 0
        shared = np.bincount(np.concatenate(pieces), minlength=self.count)
        if but >= 0:
            shared[but] = 0
        order = np.argsort(-shared, kind="stable")[:most]
        return order[shared[order] > 0], int(shared.max())


def index_bytes(letters: int) -> int:
    """About what indexes of two sizes of words hold, while they are built, for so many letters."""
    return letters * 60 + (2 << 20) * 8
