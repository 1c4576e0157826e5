"""Reuters-21578 as distributed: 22 SGML files, split by ModApte.

The files are SGML in name only (control characters as entities, stray angle brackets in raw
texts), so documents are found by their tags, not by a parser.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from lampnet.data.dataset import Dataset
from lampnet.data.schema import label_matrix
from lampnet.data.splits import Splits
from lampnet.errors import DataError, FormatError
from lampnet.readers.files import read_text

_OPEN = re.compile(r"<REUTERS\b([^<>]*+)>")
_ATTRIBUTE = re.compile(r'(?<![A-Z])([A-Z]++)="([^"]*+)"')
_LONG_NUMBER = re.compile(r"&#[0-9]{9,}+;?")  # no character has such a number
_CONTROL = re.compile(r"&#(?:[0-9]|1[0-9]|2[0-9]|3[01]|127);")  # control characters written as entities


@dataclass(frozen=True)
class Document:
    """One document: its number, its attributes, its topics and its text (title, then body)."""

    number: str
    split: str
    has_topics: str
    text_type: str
    topics: tuple[str, ...]
    title: str
    body: str

    @property
    def text(self) -> str:
        """Title and body, a line each."""
        return "\n".join(part for part in (self.title, self.body) if part)


def clean(text: str) -> str:
    """Entities decoded, control characters (written as entities) removed.

    >>> clean("&lt;X&gt; rose &#3; 3 pct &amp; more")
    '<X> rose   3 pct & more'
    """
    return html.unescape(_CONTROL.sub("", _LONG_NUMBER.sub("\ufffd", text))).strip()


def read_documents(path: str | Path) -> Iterator[Document]:
    """Every document of one SGML file (Latin-1)."""
    path = Path(path)
    text = read_text(path, "latin-1")
    place, line, counted = 0, 1, 0
    while (found := _OPEN.search(text, place)) is not None:
        line += text.count("\n", counted, found.start())
        counted = found.start()
        end = text.find("</REUTERS>", found.end())
        if end < 0 or text.find("<REUTERS ", found.end(), end) >= 0:
            raise FormatError(path, "the document does not end with </REUTERS>; is the file whole?", line)
        yield _document(path, dict(_ATTRIBUTE.findall(found.group(1))), text[found.end() : end], line)
        place = end
    if place == 0:
        raise FormatError(path, "no <REUTERS> document was found; give a reut2-*.sgm file")


def _between(text: str, opening: str, closing: str) -> Iterator[str]:
    """What stands between the tags, in one pass."""
    place = 0
    while (start := text.find(opening, place)) >= 0:
        start += len(opening)
        end = text.find(closing, start)
        if end < 0:
            return
        yield text[start:end]
        place = end + len(closing)


def _document(path: Path, attributes: dict[str, str], content: str, line: int) -> Document:
    outer = next(_between(content, "<TEXT", "</TEXT>"), None)
    if outer is None or ">" not in outer:
        raise FormatError(path, "the document has no TEXT", line)
    described, _, inner = outer.partition(">")
    kind = re.search(r'TYPE="(\w++)"', described)
    title, body = (next(_between(inner, f"<{part}>", f"</{part}>"), None) for part in ("TITLE", "BODY"))
    topics = next(_between(content, "<TOPICS>", "</TOPICS>"), "")
    if title is None and body is None:  # unprocessed documents hold raw text
        head, text = "", inner
    else:
        head, text = title or "", body or ""
    return Document(
        number=attributes.get("NEWID", ""),
        split=attributes.get("LEWISSPLIT", ""),
        has_topics=attributes.get("TOPICS", ""),
        text_type=kind.group(1) if kind else "NORM",
        topics=tuple(dict.fromkeys(_between(topics, "<D>", "</D>"))),
        title=clean(head),
        body=clean(text),
    )


def read_reuters(folder: str | Path, name: str = "reuters21578") -> Splits:
    """The ModApte split: documents of the topics that occur on both sides; those without a topic are left out."""
    folder = Path(folder)
    files = sorted(folder.glob("reut2-*.sgm"))
    if not files:
        raise DataError(f"the folder {folder} has no reut2-*.sgm files; fetch them with: lampnet data fetch {name}")
    sides: dict[str, list[Document]] = {"TRAIN": [], "TEST": []}
    for path in files:
        for document in read_documents(path):
            if document.has_topics == "YES" and document.split in sides:
                sides[document.split].append(document)
    topics = [{topic for document in side for topic in document.topics} for side in sides.values()]
    label_names = tuple(sorted(topics[0] & topics[1]))
    if not label_names:
        raise DataError(f"{folder}: no topic has documents on both sides of the split; are all files there?")
    parts = {}
    for side, documents in sides.items():
        kept = [document for document in documents if not set(label_names).isdisjoint(document.topics)]
        labels = label_matrix([[t for t in document.topics if t in label_names] for document in kept], label_names)
        texts, ids = [document.text for document in kept], tuple(document.number for document in kept)
        parts[side] = Dataset(name=name, kind="text", rows=texts, labels=labels, label_names=label_names, ids=ids)
    return Splits(train=parts["TRAIN"], test=parts["TEST"])
