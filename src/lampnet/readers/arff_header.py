"""The header of an ARFF file: attribute names and types, and MEKA's `-C n`; and Mulan's label XML."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from xml.etree import ElementTree

from lampnet.errors import DataError, FormatError, did_you_mean
from lampnet.readers.files import decode, plain_stem, plain_suffix, read_bytes
from lampnet.runtime.memory_limit import STRING, MemoryBudget

# Possessive (`*+`): what was taken is not given back, so the time is linear whatever the line holds.
QUOTED = r"""'((?:[^'\\]|\\.)*+)'|"((?:[^"\\]|\\.)*+)\""""
_NAME = re.compile(rf"\s*+(?:{QUOTED}|([^\s{{]++))\s*+")
_FIELD = re.compile(rf"""\s*+(?:(?:{QUOTED})\s*+|([^,'"]*+))(?:,|$)""")
_MEKA = re.compile(r"-C\s++(-?[0-9]{1,9})\b")


@dataclass(frozen=True)
class Attribute:
    """One declared column: `categories` is None for numbers, and () for free strings."""

    name: str
    categories: tuple[str, ...] | None

    @property
    def is_text(self) -> bool:
        return self.categories == ()

    @cached_property
    def numeric_categories(self) -> tuple[float, ...] | None:
        """The categories as numbers, where every one of them is a number."""
        if not self.categories:
            return None
        try:
            return tuple(float(category) for category in self.categories)
        except ValueError:
            return None

    @cached_property
    def counts_from_zero(self) -> bool:
        """Whether the declared values are 0, 1, ...: then a value is its own code."""
        return self.numeric_categories == tuple(range(len(self.categories or ())))

    @cached_property
    def codes(self) -> dict[str | float, int]:
        """The place of every category in the declaration, by its name and, where all are numbers, by its number."""
        by_name: dict[str | float, int] = {}
        for place, name in enumerate(self.categories or ()):
            by_name.setdefault(name, place)
        for place, number in enumerate(self.numeric_categories or ()):
            by_name.setdefault(number, place)
        return by_name


@dataclass(frozen=True)
class Header:
    """What stands before `@data`; `data_line` is the number of the first line after it."""

    relation: str
    attributes: tuple[Attribute, ...]
    data_line: int
    data_start: int

    @property
    def meka_labels(self) -> int | None:
        """n of MEKA's `-C n`: the first n attributes are labels, the last -n when negative."""
        found = _MEKA.search(self.relation)
        return int(found.group(1)) if found else None


def unescape(name: str) -> str:
    r"""A backslash before a quote, a backslash or a percent sign only protects it.

    >>> unescape(r"it\'s")
    "it's"
    >>> unescape(r"dise\~no")
    'dise\\~no'
    """
    return re.sub(r"\\(['\"\\%])", r"\1", name)


def split_fields(text: str) -> list[str] | None:
    """The comma-separated fields of a line, quotes removed; None when a quote does not close.

    >>> split_fields("1, 'a, b', c")
    ['1', 'a, b', 'c']
    """
    fields, place = [], 0
    while True:
        found = _FIELD.match(text, place)
        if found is None:
            return None
        single, double, plain = found.groups()
        quoted = single if single is not None else double
        fields.append(unescape(quoted) if quoted is not None else plain.rstrip())
        place = found.end()
        if place == len(text):
            return [*fields, ""] if found.group().endswith(",") and text.rstrip().endswith(",") else fields


def parse_header(path: Path, raw: bytes) -> Header:
    """Read up to and with the `@data` line."""
    attributes: list[Attribute] = []
    budget = MemoryBudget(path)
    relation, line, start = "", 0, 0
    while start < len(raw):
        end = raw.find(b"\n", start)
        end = len(raw) if end < 0 else end
        line += 1
        text = raw[start:end].strip()
        start = end + 1
        if not text or text.startswith(b"%"):
            continue
        # Old Mulan files name attributes in Latin-1.
        try:
            words = text.decode("utf-8")
        except UnicodeDecodeError:
            words = text.decode("latin-1")
        keyword, _, rest = words.replace("\t", " ").partition(" ")
        keyword = keyword.lower()
        if keyword == "@data":
            if not attributes:
                raise FormatError(path, "there is no @attribute before @data", line)
            return Header(relation, tuple(attributes), line + 1, start)
        if keyword == "@relation":
            relation = rest.strip()
        elif keyword == "@attribute":
            budget.take(STRING * (6 + rest.count(",")), line)
            attributes.append(_attribute(path, rest, line))
        else:
            raise FormatError(path, f"{words[:40]!r} is not an ARFF header line (@relation, @attribute, @data)", line)
    raise FormatError(path, "the file ends before a @data line; is it an ARFF file, and whole?", max(line, 1))


def _attribute(path: Path, text: str, line: int) -> Attribute:
    found = _NAME.match(text)
    if found is None:
        raise FormatError(path, "an @attribute line needs a name and a type", line)
    single, double, plain = found.groups()
    quoted = single if single is not None else double
    name = unescape(quoted) if quoted is not None else plain
    kind = text[found.end() :].strip()
    if kind.startswith("{"):
        categories = split_fields(kind[1:-1]) if kind.endswith("}") else None
        if not categories:
            raise FormatError(path, f"attribute {name!r}: the list of its values does not close", line)
        return Attribute(name, tuple(categories))
    word = kind.split(" ")[0].lower()
    if word in ("numeric", "real", "integer"):
        return Attribute(name, None)
    if word == "string":
        return Attribute(name, ())
    raise FormatError(
        path, f"attribute {name!r} has the type {kind[:30]!r}; known are numeric, real, integer, string, {{...}}", line
    )


class _LabelElements:
    """Gathers the names of `label` elements while an XML file is parsed; no tree is built of it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.names: list[str] = []

    def doctype(self, *declared: str | None) -> None:
        raise FormatError(self.path, "document types and entities are not allowed in a label file")

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        if tag.rpartition("}")[2].lower() == "label":
            self.names.append(attributes.get("name", ""))

    def close(self) -> None:
        """The parser asks for it."""


def read_label_names(path: str | Path) -> tuple[str, ...]:
    """Label names from a Mulan XML file (nested labels too) or a text file with one name per line."""
    path = Path(path)
    raw = read_bytes(path)
    if plain_suffix(path) == ".xml" or raw.lstrip(b"\xef\xbb\xbf \r\n\t").startswith(b"<"):
        found = _LabelElements(path)
        parser = ElementTree.XMLParser(target=found)
        try:
            parser.feed(raw)
            parser.close()
        except ElementTree.ParseError as error:
            raise FormatError(path, f"this is not well-formed XML ({error})", error.position[0]) from None
        except FormatError:
            raise
        except (LookupError, ValueError) as error:
            raise FormatError(path, f"this is not readable XML ({error})") from None
        names = found.names
    else:
        MemoryBudget(path).check(4 * len(raw) + STRING * raw.count(b"\n"))
        names = [line.strip() for line in decode(path, raw).split("\n") if line.strip()]
    if not names or "" in names:
        raise FormatError(path, 'no label names were found; expected <label name="..."/> elements or one name per line')
    return tuple(names)


def label_xml(path: Path) -> Path | None:
    """The label XML of a file: the only `.xml` beside it, or the one whose name its own name begins with."""
    beside = sorted(path.parent.glob("*.xml"))
    if len(beside) > 1:
        stem = plain_stem(path).lower()
        beside = [file for file in beside if re.match(re.escape(file.stem.lower()) + r"(?![a-z0-9])", stem)]
    return beside[0] if len(beside) == 1 else None


def known_columns(header: Header, label_names: tuple[str, ...]) -> list[int | None]:
    """The attribute number of every label; None for those that the file does not have."""
    places: dict[str, int] = {}
    for number, attribute in enumerate(header.attributes):
        places.setdefault(unescape(attribute.name), number)
    for number, attribute in enumerate(header.attributes):
        places.setdefault(attribute.name, number)
    return [places.get(name, places.get(unescape(name))) for name in label_names]


def find_columns(path: Path, header: Header, label_names: tuple[str, ...]) -> list[int]:
    """The attribute number of every label."""
    places = known_columns(header, label_names)
    missing = [name for name, place in zip(label_names, places, strict=True) if place is None]
    if missing:
        known = did_you_mean(missing[0], (attribute.name for attribute in header.attributes))
        raise DataError(
            f"{path}: the label {missing[0]!r} is not an attribute of the file "
            f"({len(missing)} of {len(label_names)} are not); {known[:300]}"
        )
    columns = [place for place in places if place is not None]
    if len(set(columns)) != len(columns):
        raise DataError(f"{path}: two of the label names mean the same attribute; list every label once")
    return columns
