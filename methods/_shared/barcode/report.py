"""One HTML file that needs nothing else: no network, and no script (one sorts tables where it may run)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from pathlib import Path

MAX_ROWS = 500
WORD_LETTERS, TEXT_LETTERS = 24, 12  # up to which a word, such as a record id, or a text is not broken

STYLE = Path(__file__).with_name("report.css").read_text(encoding="utf-8")
SCRIPT = Path(__file__).with_name("report.js").read_text(encoding="utf-8")


def visible(value: object) -> str:
    """Escaped text; control characters, which HTML does not know, become a mark."""
    text = "".join(c if c.isprintable() or c in " \n" else "�" for c in str(value))
    return escape(text)


def shown(value: object, digits: int | None) -> str:
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:.{digits}f}" if digits is not None else f"{value:.6g}"
    return visible(value)


class Report:
    """Built from top to bottom; every text is escaped here and nowhere else."""

    def __init__(self, title: str, subtitle: str) -> None:
        self.title = title
        self.parts = [f'<header><h1>{visible(title)}</h1><p class="sub">{visible(subtitle)}</p></header>']

    def section(self, heading: str) -> None:
        self.parts.append(f"<h2>{visible(heading)}</h2>")

    def paragraph(self, text: str, *, small: bool = False) -> None:
        self.parts.append(f"<p{' class=small' if small else ''}>{visible(text)}</p>")

    def preformatted(self, text: str) -> None:
        self.parts.append(f"<pre>{visible(text)}</pre>")

    def facts(self, facts: Mapping[str, object]) -> None:
        items = "".join(
            f"<div><dt>{visible(k)}</dt><dd>{shown(v, None) or '-'}</dd></div>" for k, v in facts.items()
        )
        self.parts.append(f'<dl class="facts">{items}</dl>')

    def notes(self, notes: Iterable[Mapping[str, str]]) -> None:
        """Each with `level` ("warning" or "note") and `text`; warnings first."""
        ordered = sorted(notes, key=lambda note: note["level"] != "warning")
        items = "".join(
            f'<li class="{"warning" if note["level"] == "warning" else "note"}">{visible(note["text"])}</li>'
            for note in ordered
        )
        if items:
            self.parts.append(f'<ul class="notes">{items}</ul>')

    def figure(self, svg: str, caption: str) -> None:
        """`svg` as `plots` makes it, which escapes its texts."""
        drawing = f'<div class="scroll" tabindex="0">{svg}</div>'
        self.parts.append(f"<figure>{drawing}<figcaption>{visible(caption)}</figcaption></figure>")

    def table(
        self,
        columns: Sequence[str],
        rows: Sequence[Sequence[object]],
        *,
        caption: str = "",
        digits: Mapping[str, int] | None = None,
        whole: str | None = None,
    ) -> None:
        """A column is numeric where every value in it is; `whole` names the file with all rows."""
        digits = digits or {}
        shown_rows = rows[:MAX_ROWS]
        numeric = [all(is_number(row[n]) for row in rows) and bool(rows) for n in range(len(columns))]
        head = "".join(
            f'<th scope="col"{" class=num" if number else ""}>{visible(name)}</th>'
            for name, number in zip(columns, numeric, strict=True)
        )
        body = "".join(
            "<tr>" + "".join(map(table_cell, row, numeric, (digits.get(c) for c in columns))) + "</tr>"
            for row in shown_rows
        )
        if len(rows) > MAX_ROWS:
            caption += f" The first {MAX_ROWS:,} of {len(rows):,} rows; all are in {whole}."
        top = f"<caption><span>{visible(caption.strip())}</span></caption>" if caption else ""
        self.parts.append(
            f'<div class="scroll" tabindex="0"><table>{top}<thead><tr>{head}</tr></thead>'
            f"<tbody>{body}</tbody></table></div>"
        )

    def write(self, path: Path) -> None:
        body = "\n".join(self.parts)
        path.write_text(
            '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
            '<meta name="viewport" content="width=device-width,initial-scale=1">'
            f"<title>{visible(self.title)}</title><style>{STYLE}</style></head>\n"
            f"<body>{body}<script>{SCRIPT}</script></body></html>\n",
            encoding="utf-8",
        )


def is_number(value: object) -> bool:
    return value is None or (isinstance(value, (int, float)) and not isinstance(value, bool))


def table_cell(value: object, numeric: bool, digits: int | None) -> str:
    text = shown(value, digits)
    if not numeric:
        unbroken = len(text) <= (TEXT_LETTERS if any(map(str.isspace, text)) else WORD_LETTERS)
        return f"<td{' class=word' if unbroken else ''}>{text}</td>"
    return f'<td class="num" data-v="{value if text else ""}">{text}</td>'
