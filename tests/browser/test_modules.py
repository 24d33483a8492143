"""The page's own reading of schemas, tables and trees, run in the browser that uses them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio
from playwright.async_api import Browser, Page

from tests.support.browsing import DevService, open_context

READ = """async ({schema, raw, required}) => {
  const {fieldsOf, valueOf} = await import("/page/schema.js");
  const [field] = fieldsOf({properties: {p: schema}, required: required ? ["p"] : []});
  return valueOf(field, field.kind === "several" ? new Set(raw) : raw);
}"""
TABLE = """async ({text, separator}) => (await import("/page/tables.js")).parseTable(text, separator, 100)"""
TREE = """async text => {
  const own = node => [[node.name, node.length]];
  const tell = node => node.children.length ? node.children.map(tell).concat(own(node)) : node.name;
  const root = (await import("/page/newick.js")).parseNewick(text);
  return root && tell(root);
}"""
LEAST = {"type": "integer", "minimum": 0, "maximum": 9, "default": 2}
MAYBE = {"type": ["number", "null"], "minimum": 0, "default": None}


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def page(browser: Browser, service: DevService) -> AsyncIterator[Page]:
    """One for all: nothing here changes it."""
    async with open_context(browser, service, None) as context:
        opened = await context.new_page()
        await opened.goto("/")
        yield opened


@pytest.mark.parametrize(
    ("schema", "raw", "value"),
    [
        (LEAST, " 7 ", 7),
        (MAYBE, "", None),
        (MAYBE, "2,5", 2.5),
        ({"type": "string"}, "", ...),
        ({"type": "string", "default": ""}, "", ""),
        ({"enum": [1, "1", None]}, "1", "1"),
        ({"enum": [1, 2]}, "", ...),
        ({"type": "boolean"}, True, True),
        ({"type": "array", "items": {"enum": ["a", "b"]}}, ["b", "a"], ["a", "b"]),
        ({"type": "array", "items": {"type": "integer"}}, "1\n\n 2\n", [1, 2]),
        ({"type": "object"}, '{"a": [1]}', {"a": [1]}),
        ({"type": "number", "multipleOf": 0.1}, "0.3", 0.3),
    ],
)
async def test_a_fields_text_becomes_the_schemas_value(page: Page, schema: Any, raw: Any, value: Any) -> None:
    found = await page.evaluate(READ, {"schema": schema, "raw": raw, "required": False})
    assert found == ({} if value is ... else {"value": value}) or (value is ... and found == {"value": None})


@pytest.mark.parametrize(
    ("schema", "raw", "wrong"),
    [
        (LEAST, "-1", "0 is the least."),
        (LEAST, "10", "9 is the most."),
        (LEAST, "1.5", "This must be a whole number."),
        (LEAST, "one", "This is not a number."),
        (LEAST, "", "A value is needed here."),
        ({"type": "number", "exclusiveMinimum": 0}, "0", "This must be more than 0."),
        ({"type": "number", "multipleOf": 5}, "7", "This must be a multiple of 5."),
        ({"type": "string", "minLength": 2}, "a", "At least 2 characters are needed."),
        ({"type": "string", "maxLength": 2}, "abc", "2 characters are the most."),
        (
            {"type": "string", "pattern": "^[A-Z]+$"},
            "a",
            "This does not have the form that is asked for (^[A-Z]+$).",
        ),
        ({"type": "array", "items": {"enum": ["a"]}, "minItems": 1}, [], "At least 1 must be given."),
        (
            {"type": "array", "items": {"type": "integer"}, "uniqueItems": True},
            "1\n1",
            "Each may be given once only.",
        ),
        ({"type": "object"}, "{", "This is not JSON."),
    ],
)
async def test_what_is_wrong_with_a_field_is_said_in_words(
    page: Page, schema: Any, raw: Any, wrong: str
) -> None:
    assert await page.evaluate(READ, {"schema": schema, "raw": raw, "required": True}) == {"wrong": wrong}


async def test_tables_are_read_with_quotes_and_line_ends_of_any_kind(page: Page) -> None:
    text = '\ufeffa,b\r\n"x, ""y""\nz",2\n\n,3'
    rows = await page.evaluate(TABLE, {"text": text, "separator": ","})
    assert rows == [["a", "b"], ['x, "y"\nz', "2"], ["", "3"]]
    assert await page.evaluate(TABLE, {"text": 'a\t5" x\n', "separator": "\t"}) == [["a", '5" x']]


async def test_newick_trees_are_read_and_what_is_none_is_refused(page: Page) -> None:
    text = "('A''s | x':0.1,(B_b:0.2,C[note]:-1e-3)0.9:0.3)root;\n"
    assert await page.evaluate(TREE, text) == ["A's | x", ["B b", "C", ["0.9", 0.3]], ["root", 0]]
    for other in ("", "A;", "(A,B", "(A,B));", "(A:x,B);", "<html>"):
        assert await page.evaluate(TREE, other) is None, other
