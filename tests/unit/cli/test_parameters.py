"""Parameters on the command line are of the types that the method's schema wants."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from typer import BadParameter

from aioanalysis.cli.parameters import parameters

SCHEMA = {
    "type": "object",
    "additionalProperties": False,
    "properties": {
        "marker": {"type": "string"},
        "count": {"type": "integer"},
        "percent": {"type": ["number", "null"]},
        "strict": {"type": "boolean"},
        "model": {"enum": ["k2p", "p", 3, None]},
        "fields": {"type": "array", "items": {"type": "string"}},
        "sizes": {"type": "array", "items": {"type": "integer"}},
        "map": {"type": "object"},
        "either": {"anyOf": [{"type": "integer"}, {"type": "string"}]},
        "free": {},
    },
}


@pytest.mark.parametrize(
    ("pair", "value"),
    [
        ("marker=5", "5"),
        ("marker=", ""),
        ("marker=a=b", "a=b"),
        ("count=5", 5),
        ("count=5.0", 5),
        ("percent=5", 5),
        ("percent=0.5", 0.5),
        ("percent=null", None),
        ("percent=", None),
        ("strict=yes", True),
        ("strict=False", False),
        ("model=k2p", "k2p"),
        ("model=3", 3),
        ("model=null", None),
        ("fields=a, b", ["a", "b"]),
        ('fields=["a,b"]', ["a,b"]),
        ("fields=", []),
        ("sizes=1,2", [1, 2]),
        ('map={"a": 1}', {"a": 1}),
        ("either=7", 7),
        ("either=x", "x"),
        ("free=[1]", [1]),
        ("free=word", "word"),
    ],
)
def test_a_value_is_of_its_parameters_type(pair: str, value: Any) -> None:
    assert parameters([pair], None, SCHEMA) == {pair.partition("=")[0]: value}


@pytest.mark.parametrize(
    ("pair", "says"),
    [
        ("count=many", "must be a whole number"),
        ("count=5.5", "must be a whole number"),
        ("percent=1e999", "must be a number or null"),
        ("percent=NaN", "must be a number or null"),
        ("strict=maybe", "must be true or false"),
        ("model=jc", "must be one of k2p, p, 3, null"),
        ("sizes=1,x", "must be a list"),
        ("map=[1]", "must be a JSON object"),
        ("cuont=1", "did you mean count?"),
        ("zzz=1", "there is no such parameter; there are marker, count"),
        ("marker", "write NAME=VALUE"),
    ],
)
def test_a_value_that_is_not_is_refused_with_what_it_must_be(pair: str, says: str) -> None:
    with pytest.raises(BadParameter, match=says.replace("?", r"\?")):
        parameters([pair], None, SCHEMA)


def test_pairs_go_over_a_whole_object_and_lists_grow(tmp_path: Path) -> None:
    file = tmp_path / "params.json"
    file.write_text('{"count": 1, "marker": "COI-5P"}')
    given = parameters(["count=2", "fields=a", "fields=b"], f"@{file}", SCHEMA)
    assert given == {"count": 2, "marker": "COI-5P", "fields": ["a", "b"]}
    with pytest.raises(BadParameter, match="more than once"):
        parameters(["count=1", "count=2"], None, SCHEMA)


def test_without_a_schema_what_is_json_is_taken_as_such() -> None:
    assert parameters(["a=5", "b=x"], '{"c": null}') == {"a": 5, "b": "x", "c": None}


@pytest.mark.parametrize("text", ["[]", "{", "@/no/such/file"])
def test_params_that_are_no_object_are_refused(text: str) -> None:
    with pytest.raises(BadParameter, match="--params"):
        parameters([], text)
