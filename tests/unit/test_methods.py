"""Reading methods: what is refused and in which words, parameters, and what the digest depends on."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from aioanalysis import methods as methods_module
from aioanalysis.buildcontext import build_context
from aioanalysis.domain.method import Limits, Method
from aioanalysis.errors import MethodFailure, Misconfigured
from aioanalysis.methods import check_params, list_methods, load_method, with_defaults
from tests.support.runs import METHODS, write_method


async def refusal(folder: Path, title: str = "m") -> str:
    with pytest.raises(MethodFailure) as caught:
        await load_method(folder, title)
    assert caught.value.reason == "method"
    return caught.value.text


async def digest(folder: Path, title: str = "m", **more: Any) -> str:
    return (await load_method(folder, title, **more)).digest


def method_of(schema: dict[str, Any]) -> Method:
    return Method(title="m", label="m", description="m", version="1", parameters=schema)


async def test_a_method_is_read_with_its_limits_and_parameters(tmp_path: Path) -> None:
    write_method(tmp_path, "m", limits={"memory_bytes": 1 << 20, "cpus": 0.5}, network=True, label="Label")
    loaded = await load_method(tmp_path, "m")
    assert loaded.path == tmp_path / "m"
    assert loaded.method.title == "m"
    assert loaded.method.label == "Label"
    assert loaded.method.limits == Limits(memory_bytes=1 << 20, cpus=0.5)
    assert loaded.method.network
    assert len(loaded.digest) == 64


@pytest.mark.parametrize("title", ["nope", "NOPE", "m.json"])
async def test_a_title_without_a_directory_says_so(tmp_path: Path, title: str) -> None:
    (tmp_path / "m.json").touch()
    assert title in await refusal(tmp_path, title)


@pytest.mark.parametrize(
    "title", ["", "..", ".", "a/b", "../m", "_shared", ".git", "m\n", "m\0", "x" * 65, "é"]
)
async def test_a_text_that_can_be_no_title_touches_no_file(tmp_path: Path, title: str) -> None:
    assert "cannot be a method's title" in await refusal(tmp_path / "m", title)


@pytest.mark.parametrize(
    ("break_it", "words"),
    [
        (lambda m: (m / "method.json").unlink(), "method.json is missing"),
        (lambda m: (m / "method.json").write_text("{"), "method.json is not JSON"),
        (lambda m: (m / "method.json").write_bytes(b"\xff"), "method.json is not JSON"),
        (lambda m: (m / "method.json").write_text('{"limits": NaN}'), "NaN is no JSON number"),
        (lambda m: (m / "method.json").write_text("[" * 100_000), "method.json is not JSON"),
        (lambda m: (m / "method.json").write_text("[]"), "must be a JSON object"),
        (lambda m: (m / "method.json").write_text(" " * (1 << 20) + "{}"), "larger than"),
        (lambda m: (m / "Dockerfile").unlink(), "Dockerfile is missing"),
        (lambda m: (m / "stages/3_stage.py").unlink(), "stages/3_* is missing"),
        (lambda m: (m / "stages/3_more.sh").touch(), "stages/3_* is there 2 times"),
        (lambda m: (m / "stages/6_stage.py").touch(), "stages/6_stage.py has no place"),
        (lambda m: (m / "stages/3_stage.py").rename(m / "stages/3_stage.txt"), "is not executable"),
        (lambda m: (m / "out").symlink_to("../../etc"), "leads out of the method's directory"),
        (lambda m: (m / "out").symlink_to("/etc/passwd"), "leads out of the method's directory"),
        (lambda m: os.mkfifo(m / "pipe"), "neither a file nor a directory"),
    ],
)
async def test_a_directory_that_is_no_method_says_what_is_wrong(
    tmp_path: Path, break_it: Callable[[Path], object], words: str
) -> None:
    break_it(write_method(tmp_path, "m"))
    text = await refusal(tmp_path)
    assert words in text
    assert text.startswith("Method 'm': ")
    assert await list_methods(tmp_path) == ([], {"m": text})


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("label", "", "needs a 'label'"),
        ("description", None, "needs a 'description'"),
        ("version", 1, "needs a 'version'"),
        ("network", "yes", "'network' must be true or false"),
        ("limits", [], "'limits' must be an object"),
        ("limits", {"memory": 1}, "no limit 'memory'"),
        ("limits", {"memory_bytes": 1.5}, "a whole number above 0"),
        ("limits", {"cpus": 0}, "a number above 0"),
        ("limits", {"cpus": True}, "a number above 0"),
        ("limits", {"run_seconds": "1"}, "a number above 0"),
        ("parameters", None, "JSON Schema of an object"),
        ("parameters", {"type": "array"}, "JSON Schema of an object"),
        ("parameters", {"type": "object", "properties": 1}, "/parameters/properties is no JSON Schema"),
        (
            "parameters",
            {"type": "object", "properties": {"a": {"type": "text"}}},
            "/parameters/properties/a/type",
        ),
        (
            "parameters",
            {"type": "object", "properties": {"a": {"pattern": "("}}},
            "/parameters/properties/a/pattern",
        ),
        ("parameters", {"type": "object", "$ref": "http://127.0.0.1:1/x"}, "leads nowhere"),
        ("parameters", {"type": "object", "properties": {"a": {"$ref": "#/$defs/a"}}}, "leads nowhere"),
        (
            "parameters",
            {"type": "object", "properties": {"a": {"type": "integer", "default": "1"}}},
            "default does not fit its own schema; /a",
        ),
    ],
)
async def test_a_definition_that_is_wrong_names_the_field(
    tmp_path: Path, field: str, value: Any, words: str
) -> None:
    write_method(tmp_path, "m", **{field: value})
    assert words in await refusal(tmp_path)


async def test_limits_may_be_null_and_parameters_left_out(tmp_path: Path) -> None:
    folder = write_method(tmp_path, "m", limits={"silence_seconds": None})
    body = json.loads((folder / "method.json").read_text())
    del body["parameters"]
    (folder / "method.json").write_text(json.dumps(body))
    method = (await load_method(tmp_path, "m")).method
    assert method.limits == Limits()
    assert check_params(method, {}) == []
    assert check_params(method, {"a": 1}) != []


async def test_the_list_holds_the_good_and_says_what_is_wrong_with_the_others(tmp_path: Path) -> None:
    for title in ("b", "a", "_shared", ".git"):
        write_method(tmp_path, title)
    (tmp_path / "README.md").touch()
    (tmp_path / "empty").mkdir()
    (tmp_path / "no title").mkdir()
    found, problems = await list_methods(tmp_path)
    assert [directory.method.title for directory in found] == ["a", "b"]
    assert set(problems) == {"empty", "no title"}


async def test_a_methods_dir_that_is_not_there_is_a_setting_to_mend(tmp_path: Path) -> None:
    with pytest.raises(Misconfigured, match="AIOANALYSIS_METHODS_DIR"):
        await list_methods(tmp_path / "nowhere")


async def test_the_methods_for_tests_can_all_be_read() -> None:
    found, problems = await list_methods(METHODS)
    assert problems == {}
    assert len(found) >= 5


# --- the digest ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "change",
    [
        lambda m: (m / "stages/1_stage.py").write_text("print('STAGE 1')\n"),
        lambda m: (m / "stages/1_stage.py").chmod(0o755),
        lambda m: (m / "more").touch(),
        lambda m: (m / "more").mkdir(),
        lambda m: (m / "Dockerfile").write_text("FROM x\n"),
        lambda m: (m / "link").symlink_to("Dockerfile"),
        lambda m: (m.parent / "_shared/lib/b.py").write_text("2"),
    ],
)
async def test_whatever_a_build_takes_changes_the_digest(
    tmp_path: Path, change: Callable[[Path], object]
) -> None:
    folder = write_method(tmp_path, "m")
    (tmp_path / "_shared/lib").mkdir(parents=True)
    (tmp_path / "_shared/lib/a.py").write_text("1")
    before = await digest(tmp_path)
    change(folder)
    assert await digest(tmp_path) != before


async def test_the_base_image_and_the_orchestrator_count_too(tmp_path: Path) -> None:
    folder = write_method(tmp_path, "m")
    names = {await digest(tmp_path, base_image=base) for base in (None, "a", "b")}
    assert len(names) == 3
    (folder / "orchestrator.py").write_text("a method's own never counts")
    assert await digest(tmp_path, base_image="a") in names


@pytest.mark.parametrize(
    "change",
    [
        lambda m: os.utime(m / "Dockerfile", (0, 0)),
        lambda m: (m / "Dockerfile").chmod(0o600),
        lambda m: (m / "stages").chmod(0o700),
        lambda m: [(m / "__pycache__").mkdir(), (m / "__pycache__/a.pyc").touch()],
        lambda m: (m / "stages/x.pyc").touch(),
        lambda m: [(m / ".git").mkdir(), (m / ".git/HEAD").touch()],
        lambda m: [(m / "sample").mkdir(), (m / "sample/records.jsonl").touch()],
        lambda m: (m / "Dockerfile~").touch(),
    ],
)
async def test_what_no_build_takes_leaves_the_digest(
    tmp_path: Path, change: Callable[[Path], object]
) -> None:
    folder = write_method(tmp_path, "m")
    before = await digest(tmp_path)
    change(folder)
    assert await digest(tmp_path) == before


async def test_two_copies_have_one_digest(tmp_path: Path) -> None:
    write_method(tmp_path / "a", "m")
    write_method(tmp_path / "b", "m")
    assert await digest(tmp_path / "a") == await digest(tmp_path / "b")


async def test_an_unchanged_directory_is_not_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(methods_module, "SETTLED_SECONDS", -1.0)
    write_method(tmp_path, "m")
    first = await load_method(tmp_path, "m")
    on_another_base = await load_method(tmp_path, "m", base_image="base")
    assert await load_method(tmp_path, "m") is first
    assert await load_method(tmp_path, "m", base_image="base") is on_another_base
    (tmp_path / "m/stages/1_stage.py").write_text("print('STAGE 1')\n")
    assert (await load_method(tmp_path, "m")).digest != first.digest


async def test_a_file_changed_just_now_is_read_again(tmp_path: Path) -> None:
    write_method(tmp_path, "m")
    first = await load_method(tmp_path, "m")
    assert await load_method(tmp_path, "m") is not first


def test_the_context_is_sorted_normalised_and_holds_the_shared_folder(tmp_path: Path) -> None:
    folder = write_method(tmp_path, "m")
    (tmp_path / "_shared").mkdir()
    (tmp_path / "_shared/a.py").touch(mode=0o600)
    (folder / "stages/1_stage.py").chmod(0o711)
    members = {member.name: member for member in build_context(folder)}
    assert list(members) == sorted(members)
    assert {"orchestrator.py", "_shared/a.py", "method.json", "stages"} <= set(members)
    assert {member.mode for member in members.values()} == {0o644, 0o755}
    assert members["stages/1_stage.py"].mode == 0o755
    assert members["_shared/a.py"].mode == 0o644


# --- parameters ------------------------------------------------------------------------------------------

SCHEMA = {
    "type": "object",
    "additionalProperties": False,
    "required": ["marker"],
    "properties": {
        "marker": {"type": "string", "enum": ["COI-5P", "ITS"]},
        "k": {"type": "integer", "minimum": 1, "default": 3},
        "a/b~c": {"type": "array", "items": {"type": "number"}, "default": [1]},
        "plot": {"type": "object", "properties": {"width": {"type": "number", "default": 8}}},
    },
}


def test_parameters_that_fit_have_no_errors() -> None:
    assert check_params(method_of(SCHEMA), {"marker": "ITS", "k": 1}) == []


def test_each_error_is_named_by_a_pointer() -> None:
    errors = check_params(method_of(SCHEMA), {"k": 0, "a/b~c": [1, "x"], "other": 1, "marker": "ITS"})
    assert [pointer for pointer, _ in errors] == ["", "/a~1b~0c/1", "/k"]
    assert check_params(method_of(SCHEMA), {}) == [("", "'marker' is a required property")]


def test_messages_about_large_values_are_short() -> None:
    [(_, message)] = check_params(method_of(SCHEMA), {"marker": "x" * 100_000})
    assert len(message) <= 500


def test_defaults_fill_what_is_not_given_also_inside_and_share_nothing() -> None:
    method = method_of(SCHEMA)
    given: dict[str, Any] = {"marker": "ITS", "plot": {}}
    filled = with_defaults(method, given)
    assert filled == {"marker": "ITS", "k": 3, "a/b~c": [1], "plot": {"width": 8}}
    assert given == {"marker": "ITS", "plot": {}}
    filled["a/b~c"].append(2)
    assert with_defaults(method, {})["a/b~c"] == [1]
    assert with_defaults(method, {"k": 9, "plot": 1}) == {"k": 9, "plot": 1, "a/b~c": [1]}
