"""The building blocks of what a method leaves: tables, plots, the report, parameters."""

from __future__ import annotations

import json
import math
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from barcode.job import to_json
from barcode.parameters import ParameterError, load_parameters
from barcode.plots import MAX_BARS, Series, histograms, nice_step
from barcode.report import MAX_ROWS, Report
from barcode.tables import write_tsv

ODD = "a\tb\r\nc\u2028d\x00e \"quoted\" 'single' <b>&amp; ; | / é " + "x" * 300
VOID = {"meta", "br"}


class Outline(HTMLParser):
    """Checks that what is opened is closed, and gathers tags, attributes and text."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def outline(html: str) -> Outline:
    found = Outline()
    found.feed(html)
    assert found.open == []
    return found


def test_a_table_has_one_line_for_each_row_whatever_is_in_it(tmp_path: Path) -> None:
    path = tmp_path / "t.tsv"
    rows = [(ODD, None, math.nan, 1 / 3, 7, True), ("", math.inf, -0.0, 1e-12, 10**12, False)]
    assert write_tsv(path, "abcdef", rows) == 2
    lines = path.read_bytes().decode().split("\n")
    assert lines.pop() == ""
    assert [line.count("\t") for line in lines] == [5, 5, 5]
    assert lines[1].startswith("a b c d e \"quoted\" 'single' <b>&amp; ; | / é x")
    assert lines[1].split("\t")[1:] == ["", "", "0.333333333333", "7", "true"]
    with pytest.raises(ValueError, match="1 cells for 2 columns"):
        write_tsv(path, "ab", [(1,)])


def test_json_has_no_nan() -> None:
    assert json.loads(to_json({"a": [math.nan, math.inf, 1.5], "b": (1, None)})) == {
        "a": [None, None, 1.5],
        "b": [1, None],
    }


def test_a_report_escapes_everything_and_needs_nothing_else(tmp_path: Path) -> None:
    report = Report(ODD, "</title><script>alert(1)</script>")
    report.section(ODD)
    report.paragraph(ODD)
    report.preformatted(ODD)
    report.facts({ODD: ODD, "none": None, "count": 12345})
    report.notes([{"level": "note", "text": "later"}, {"level": "warning", "text": ODD}])
    report.table((ODD, "n"), [(ODD, 1.23456), ("</td>", None)], caption=ODD, digits={"n": 3})
    one = Series(label="</text><script>", heights=[1, 0, 3], colour="c1")
    report.figure(histograms([one], bin_width=0.5, x_label="<x>", y_label='"y"'), ODD)
    report.write(tmp_path / "r.html")
    html = (tmp_path / "r.html").read_text(encoding="utf-8")
    found = outline(html)
    assert [tag for tag, _ in found.tags].count("script") == 1
    assert "alert(1)" in found.text
    assert "\x00" not in html
    assert "12,345" in found.text
    assert "1.235" in found.text
    assert found.text.index("x" * 300) < found.text.index("later")
    links = {"src", "href", "action", "data"}
    assert not [attributes for _, attributes in found.tags if links & set(attributes)]
    assert "@import" not in html
    assert "url(" not in html
    assert "prefers-color-scheme:dark" in html.replace(" ", "")
    assert "@media print" in html


def test_a_long_table_says_where_the_rest_is(tmp_path: Path) -> None:
    report = Report("t", "")
    report.table(("n",), [(n,) for n in range(MAX_ROWS + 3)], whole="all.tsv")
    report.write(tmp_path / "r.html")
    html = (tmp_path / "r.html").read_text(encoding="utf-8")
    assert html.count("<tr>") == MAX_ROWS + 1
    assert f"The first {MAX_ROWS} of {MAX_ROWS + 3} rows; all are in all.tsv." in html


def test_a_plot_is_well_formed_and_shows_every_bin() -> None:
    heights = [0.0, 4, 0, 2.5]
    one = Series(label="a", heights=heights, colour="c1")
    svg = ElementTree.fromstring(histograms([one], bin_width=1, x_label="x", y_label="y"))  # noqa: S314 - our own
    bars = [node for node in svg.iter() if node.tag.endswith("rect")]
    assert len(bars) == 2
    assert float(bars[0].attrib["height"]) / float(bars[1].attrib["height"]) == pytest.approx(
        4 / 2.5, abs=0.01
    )
    assert [bar[0].text for bar in bars] == ["1 to 2: 4", "3 to 4: 2.5"]


def test_a_plot_of_nothing_says_so_and_one_of_many_bins_joins_them() -> None:
    empty = histograms(
        [Series(label="a", heights=[0, 0], colour="c1")], bin_width=1, x_label="x", y_label="y"
    )
    assert "no comparisons" in empty
    many = histograms(
        [Series(label="a", heights=[1] * 1000, colour="c1")], bin_width=1, x_label="x", y_label="y"
    )
    assert many.count("<rect") == math.ceil(1000 / math.ceil(1000 / MAX_BARS))
    assert "0 to 9: 9" in many


@pytest.mark.parametrize(("span", "step"), [(10, 2), (9, 2), (1, 0.2), (0.03, 0.005), (700, 100), (0, 1)])
def test_steps_of_an_axis_are_round(span: float, step: float) -> None:
    assert nice_step(span, 7) == pytest.approx(step)


METHOD: dict[str, Any] = {
    "parameters": {
        "properties": {
            "model": {"type": "string", "enum": ["p", "k2p"], "default": "k2p"},
            "length": {"type": "integer", "minimum": 0, "maximum": 1000, "default": 200},
            "share": {"type": ["number", "null"], "minimum": 0, "maximum": 100, "default": None},
            "strict": {"type": "boolean", "default": False},
            "name": {"type": "string", "minLength": 1, "default": "COI-5P"},
        }
    }
}


def parameters(tmp_path: Path, text: str) -> dict[str, Any]:
    path = tmp_path / "params.json"
    path.write_text(text, encoding="utf-8")
    return load_parameters(path, METHOD)


def test_parameters_that_are_not_given_have_their_defaults(tmp_path: Path) -> None:
    defaults = {"model": "k2p", "length": 200, "share": None, "strict": False, "name": "COI-5P"}
    assert parameters(tmp_path, "{}") == parameters(tmp_path, "null") == defaults
    given = parameters(tmp_path, '\ufeff{"length": 300.0, "share": 1, "strict": true}')
    assert given == {**defaults, "length": 300, "share": 1, "strict": True}
    assert isinstance(given["length"], int)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("{", "params.json is not JSON"),
        ("[]", "params.json holds no JSON object"),
        ('{"colour": 1}', "Unknown parameter colour; known are model, length"),
        ('{"model": "gtr"}', 'model must be one of p, k2p, not "gtr"'),
        ('{"model": 1}', "model must be text, not 1"),
        ('{"length": "200"}', 'length must be a whole number, not "200"'),
        ('{"length": 1.5}', "length must be a whole number, not 1.5"),
        ('{"length": true}', "length must be a whole number, not true"),
        ('{"length": -1}', "length must lie between 0 and 1000, not -1"),
        ('{"share": NaN}', "share must be a number or null"),
        ('{"strict": 1}', "strict must be true or false, not 1"),
        ('{"name": ""}', "name is 0 characters long"),
    ],
)
def test_a_wrong_parameter_is_told_in_plain_words(tmp_path: Path, text: str, told: str) -> None:
    with pytest.raises(ParameterError) as refused:
        parameters(tmp_path, text)
    assert told in str(refused.value)
