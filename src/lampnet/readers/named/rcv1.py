"""RCV1-V2 in the LYRL2004 distribution: token files, topics of the documents (qrels) and the topic hierarchy."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from lampnet.data.dataset import Dataset
from lampnet.data.schema import label_matrix
from lampnet.data.splits import Splits
from lampnet.errors import DataError, FormatError
from lampnet.readers.files import read_text_lines
from lampnet.readers.label_edges import read_taxonomy
from lampnet.readers.named.loaders import only_file

TRAIN_FILES = "lyrl2004_tokens_train.dat*"
TEST_FILES = "lyrl2004_tokens_test_pt*.dat*"
QRELS = "rcv1-v2.topics.qrels*"
HIERARCHY = ("rcv1.topics.hier*", "rcv1.taxonomy")


def read_tokens(path: str | Path) -> Iterator[tuple[str, str]]:
    """Document numbers and their stemmed words, from `.I number`, `.W`, words, an empty line."""
    path = Path(path)
    number: str | None = None
    words: list[str] | None = None
    for line_number, line in enumerate(read_text_lines(path, "latin-1"), start=1):
        if line.startswith(".I"):
            if number is not None:
                yield _document(path, number, words, line_number)
            number, words = line[2:].strip(), None
            if not number.isdecimal():
                raise FormatError(path, f"expected '.I number', found {line[:40]!r}", line_number)
        elif line.startswith(".W"):
            if number is None or words is not None:
                raise FormatError(path, "'.W' must follow a '.I number' line", line_number)
            words = []
        elif line.strip():
            if words is None:
                raise FormatError(path, f"expected '.I' or '.W', found {line[:40]!r}", line_number)
            words.append(line.strip())
    if number is None:
        raise FormatError(path, "no document was found; expected lines '.I number', '.W' and words", 1)
    yield _document(path, number, words, line_number)


def _document(path: Path, number: str, words: list[str] | None, line: int) -> tuple[str, str]:
    if words is None:
        raise FormatError(path, f"the document {number} has no '.W' part; is the file whole?", line)
    return number, " ".join(words)


def read_qrels(path: str | Path) -> dict[str, list[str]]:
    """Topics of every document, from lines `TOPIC DOCUMENT 1`."""
    path = Path(path)
    topics: dict[str, list[str]] = {}
    for number, line in enumerate(read_text_lines(path, "latin-1"), start=1):
        words = line.split()
        if not words:
            continue
        if len(words) != 3 or words[2] != "1" or not words[1].isdecimal():
            raise FormatError(path, f"expected 'TOPIC DOCUMENT 1', found {line[:40]!r}", number)
        topics.setdefault(words[1], []).append(words[0])
    if not topics:
        raise FormatError(path, "the file names no topic of a document; expected lines 'TOPIC DOCUMENT 1'", 1)
    return topics


def has_documents(folder: Path) -> bool:
    """Whether the token files lie in a folder."""
    return any(folder.glob(TRAIN_FILES)) and any(folder.glob(TEST_FILES))


def read_lyrl(folder: str | Path, name: str = "rcv1") -> Splits:
    """All documents with the topics of the hierarchy as labels.

    The paper trains on the four large files (LYRL2004's test side, 781,265 documents) and tests on the
    small one (23,149), the other way round than the files are named; so does this function.
    """
    folder = Path(folder)
    qrels = read_qrels(only_file(folder, QRELS))
    parents = read_taxonomy(only_file(folder, *HIERARCHY))
    label_names = tuple(sorted(set(parents) - {"Root"}))
    large = sorted(folder.glob(TEST_FILES), key=_part)
    return Splits(
        train=_dataset(large, qrels, label_names, name),
        test=_dataset(sorted(folder.glob(TRAIN_FILES))[:1], qrels, label_names, name),
    )


def _part(path: Path) -> int:
    found = re.search(r"pt(\d+)", path.name)
    return int(found.group(1)) if found else 0


def _dataset(files: Sequence[Path], qrels: dict[str, list[str]], label_names: tuple[str, ...], name: str) -> Dataset:
    documents = [document for path in files for document in read_tokens(path)]
    if not documents:
        raise DataError(f"{name}: no token files were found; expected {TRAIN_FILES} and {TEST_FILES}")
    ids, texts = zip(*documents, strict=True)
    missing = [number for number in ids if number not in qrels]
    if missing:
        raise DataError(f"{name}: the document {missing[0]} has no line in the qrels ({len(missing)} such documents)")
    labels = label_matrix([qrels[number] for number in ids], label_names)
    return Dataset(name=name, kind="text", rows=list(texts), labels=labels, label_names=label_names, ids=ids)
