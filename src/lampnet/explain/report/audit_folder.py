"""An audit in one folder: a table of its findings as CSV and JSON, and a page to go through them with the keyboard."""

from __future__ import annotations

import csv
import hashlib
import io
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from lampnet.data.dataset import Dataset, Table
from lampnet.data.dna_bases import BASES
from lampnet.data.parts import Part, PartRows
from lampnet.errors import DataError
from lampnet.explain.input_view import picture_data
from lampnet.explain.report.escaping import fill, script_json
from lampnet.pipeline.audit import Audit, Finding
from lampnet.runtime.atomic_files import replace_files
from lampnet.runtime.folder_lock import claimed

PAGE, TABLE, DATA = "audit.html", "findings.csv", "findings.json"
#: At most this many characters of a long text, and this many values of a wide row, are shown on the page.
LONGEST_TEXT, MOST_VALUES = 2000, 40
#: Pictures are left out of the page once they take this many bytes together.
PICTURE_BYTES = 8_000_000
ABOUT = (
    "Each probability is that of the label given the row's input and its other labels, by what was learned without "
    "this row. It says what is unusual; whether it is a mistake is for you to decide."
)


@dataclass(frozen=True, kw_only=True)
class AuditFiles:
    """What was written."""

    page: Path
    table: Path
    data: Path


def check_audit_target(out: Path, overwrite: bool) -> None:
    """Refuse a folder that cannot be written to, or that holds an audit, before any work is done."""
    if out.exists() and not out.is_dir():
        raise DataError(f"{out} is a file; give a folder for the report")
    there = [name for name in (PAGE, TABLE, DATA) if (out / name).exists()]
    if there and not overwrite:
        raise DataError(
            f"{out} holds an audit ({', '.join(there)}); add --overwrite to replace it, or give another folder"
        )


def write_audit(found: Audit, data: Dataset, out: str | Path, overwrite: bool = False) -> AuditFiles:
    """Write all three files or, after any fault, none of them."""
    out = Path(out)
    check_audit_target(out, overwrite)
    files = AuditFiles(page=out / PAGE, table=out / TABLE, data=out / DATA)
    written = {
        files.table: findings_csv(found.findings),
        files.data: json.dumps([one.to_json() for one in found.findings], ensure_ascii=False, indent=1) + "\n",
        files.page: audit_page(found, data),
    }
    with claimed(out):
        check_audit_target(out, overwrite)
        try:
            replace_files({path: (text.encode("utf-8", "replace"),) for path, text in written.items()})
        except OSError as fault:
            raise DataError(f"{out} cannot be written ({fault.strerror or fault}); give another folder") from None
    return files


def findings_csv(findings: Sequence[Finding]) -> str:
    """The table: what moved a finding is JSON in its last column.

    >>> print(findings_csv([Finding(3, "a", "rain", False, 0.75, "missing", 0.5, {"wet": 1.25})]), end="")
    row,id,label,given,proba,kind,input,labels
    3,a,rain,0,0.75,missing,0.5,"{""wet"": 1.25}"
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(("row", "id", "label", "given", "proba", "kind", "input", "labels"))
    for one in findings:
        plain = one.to_json() | {"given": int(one.given)}
        writer.writerow([*list(plain.values())[:-1], json.dumps(plain["labels"], ensure_ascii=False)])
    return text.getvalue()


def audit_page(found: Audit, data: Dataset) -> str:
    """The page's HTML; it holds everything that it shows."""
    number = {name: i for i, name in enumerate(found.label_names)}
    rows: dict[int, dict[str, Any]] = {}
    pictures = 0
    for one in found.findings:
        if one.row not in rows:
            rows[one.row] = _row(data, one.row, pictures < PICTURE_BYTES)
            pictures += len(rows[one.row].get("picture", ""))
    shown = [
        one.to_json() | {"labels": list(one.to_json()["labels"].items()), "number": number[one.label]}
        for one in found.findings
    ]
    title = f"{data.name}: an audit of its labels"
    # The decisions that a browser keeps belong to these findings alone.
    key = "lampnet-audit-" + hashlib.sha256(script_json([title, shown]).encode()).hexdigest()[:16]
    content = {"title": title, "about": ABOUT, "key": key, "findings": shown, "rows": rows, "names": found.label_names}
    return fill("audit.html", title, content, ("shared.js", "audit.js"))


def _row(data: Dataset, row: int, with_picture: bool) -> dict[str, Any]:
    """A row's given labels and its input, as a text or a picture."""
    assert data.labels is not None
    given = data.labels[row]
    labels = [data.label_names[i] for i, value in zip(given.indices, given.data, strict=True) if value > 0]
    if isinstance(data.rows, PartRows):
        parts = [(part, part.place(row)) for part in data.rows.parts]
    else:
        parts = [(Part(name="", kind=data.kind, rows=data.rows, feature_names=data.feature_names), row)]
    texts: list[str] = []
    picture: dict[str, Any] = {}
    for part, place in parts:
        if place < 0:
            continue
        if part.kind != "image":
            text = _text(part, place)
            texts.append(f"{part.name}: {text}" if part.name else text)
        elif not with_picture:
            texts.append("(left out)")
        elif not picture:
            picture = {"picture": picture_data(part.rows[place])["picture"]}
    text = "\n".join(texts)
    shown = {"text": text if len(text) <= LONGEST_TEXT else text[:LONGEST_TEXT] + " …"} if texts else {}
    return {"labels": labels, **picture, **shown}


def _text(part: Part, row: int) -> str:
    """A row in words: a text itself, else its largest or first values by name."""
    rows = part.rows
    if part.kind in ("text", "molecule"):
        return str(rows[row])
    if part.kind == "dna":
        return "".join(BASES[code] for code in np.asarray(rows[row]))
    names = part.feature_names
    if isinstance(rows, Table):
        cells = [
            (name, rows.categories[i][int(value)] if i in rows.categories else f"{value:g}")
            for i, (name, value) in enumerate(zip(rows.names, rows.values[row], strict=True))
            if not np.isnan(value)
        ]
    else:
        values = rows[row].toarray()[0] if sparse.issparse(rows) else np.asarray(rows[row])
        largest = np.argsort(-np.abs(values), kind="stable")[:MOST_VALUES]
        cells = [(names[i] if names else f"feature {i}", f"{values[i]:g}") for i in largest.tolist() if values[i] != 0]
    return "\n".join(f"{name}: {value}" for name, value in cells[:MOST_VALUES])
