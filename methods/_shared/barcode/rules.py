"""The rule of distances that a job's parameters ask for, and how a report calls it."""

from __future__ import annotations

from .distances import MODEL_NAMES, Rule
from .job import Job

FORMULAS = """n   sites where both sequences have A, C, G or T (U is T); anything else is missing
P   transitions / n        Q   transversions / n        p   P + Q

p     p
jc69  -3/4 ln(1 - 4p/3)                       none where p >= 3/4 (saturated)
k2p   -1/2 ln(1 - 2P - Q) - 1/4 ln(1 - 2Q)    none where an argument is <= 0 (saturated)"""
SOURCES = (
    "Kimura (1980) J Mol Evol 16:111-120; Jukes and Cantor (1969) in Mammalian Protein Metabolism; missing "
    "bases as in ape's dist.dna. A pair without a common site, with fewer than min_overlap, or saturated has "
    "no distance: it is counted and never replaced by a number."
)


def rule_of(job: Job) -> Rule:
    chosen = job.parameters
    return Rule(
        model=chosen["distance_model"], deletion=chosen["deletion"], min_overlap=chosen["min_overlap"]
    )


def rule_told(job: Job) -> str:
    """For a subtitle: marker, model, deletion."""
    chosen = job.parameters
    return f"{chosen['marker']} · {MODEL_NAMES[chosen['distance_model']]} · {chosen['deletion']} deletion"
