"""Open whatever the user has: a file of a known format, or a folder with train, valid and test files."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from lampnet.data.dataset import Dataset
from lampnet.data.parts import Part, PartRows
from lampnet.data.schema import aligned_splits
from lampnet.data.splits import Splits
from lampnet.errors import DataError, FormatError, MissingExtra
from lampnet.readers.arff import read_arff
from lampnet.readers.dna import read_fasta_rows
from lampnet.readers.files import plain_stem, plain_suffix, read_start, read_text_lines
from lampnet.readers.jsonl import fields_left_out, read_jsonl_lines
from lampnet.readers.libsvm import lowest_index, read_libsvm
from lampnet.readers.mat import read_mat
from lampnet.readers.npz import read_npz
from lampnet.readers.options import ReadOptions
from lampnet.readers.xc import read_xc

_ENDINGS = {
    "arff": ".arff",
    "jsonl": ".jsonl .ndjson .json",
    "table": ".csv .tsv .tab .parquet .pq .arrow .feather",
    "npz": ".npz",
    "mat": ".mat",
    "libsvm": ".svm .libsvm .svmlight",
    "lines": ".txt .dat",
    "fasta": ".fa .fasta .fna",
}
FORMATS = {ending: form for form, endings in _ENDINGS.items() for ending in endings.split()}
_KNOWN = (
    "ARFF, JSONL, CSV, TSV, Parquet, Arrow, libsvm, the extreme-classification format, .npz, MATLAB 5 .mat and FASTA"
)
_MATRICES: dict[str, Callable[..., Dataset]] = {"xc": read_xc, "npz": read_npz, "mat": read_mat}
_PARTS = {"train": "train", "valid": "valid", "validation": "valid", "val": "valid", "dev": "valid", "test": "test"}
_PART = re.compile(r"(?:^|[-_.])(train|validation|valid|val|dev|test)(?:[-_][^.]*)?$", re.IGNORECASE)
_PAIR = re.compile(rb"\d:[-+.\d]")


def read(path: str | Path, **options: Any) -> Splits | Dataset:
    """A folder as `Splits`, a file as `Dataset`; options as in `ReadOptions`.

    A folder holds `train.*` and, where they are, `valid.*` and `test.*` (or `*-train.*` and so on). Labels and features
    of the later parts are brought to the training part's order: a label that training never has is an error, a feature
    it never has is dropped. A `.txt` file may also hold one text per line; gzip and bz2 are read where they are usual.
    """
    return read_and_columns(Path(path), ReadOptions(**options))[0]


def read_and_columns(path: Path, options: ReadOptions) -> tuple[Splits | Dataset, Mapping[str, Any] | None]:
    """As `read`, and what the columns were taken for (tables only)."""
    return _read_folder(path, options) if path.is_dir() else _read(path, options)


def format_of(path: str | Path) -> str:
    """The format of a file, from its name; from its first bytes where the name does not tell."""
    path = Path(path)
    known = FORMATS.get(plain_suffix(path))
    if known is not None and known != "lines":
        return known
    if not path.exists():
        raise FormatError(path, "there is no such file; check the path")
    start = read_start(path, 1 << 16)
    if start.startswith((b"PK\x03\x04", b"MATLAB", b"PAR1", b"ARROW1")):
        return {b"PK": "npz", b"MA": "mat", b"PA": "table", b"AR": "table"}[start[:2]]
    text = start.removeprefix(b"\xef\xbb\xbf").lstrip()
    if re.match(rb"(?i)(?:%[^\n]*+\n\s*+)*+@relation", text):
        return "arff"
    first, _, rest = text.partition(b"\n")
    if len(first.split()) == 3 and first.replace(b" ", b"").strip().isdigit() and _begins_with_pair(rest.lstrip()):
        return "xc"
    if _begins_with_pair(first) and re.fullmatch(rb"\S+:\S+", first.split()[-1]):
        return "libsvm"
    if first.startswith(b"{"):
        return "jsonl"
    if known == "lines" and plain_suffix(path) == ".txt":
        return "text"
    raise FormatError(path, f"the format of this file is not known; lampnet reads {_KNOWN}")


def _begins_with_pair(text: bytes) -> bool:
    """Whether the first colon of a line stands in an `index:value` pair."""
    colon = text.partition(b"\n")[0].find(b":")
    return colon > 0 and _PAIR.match(text, colon - 1) is not None


def _read(path: Path, options: ReadOptions, base: int | None = None) -> tuple[Dataset, Mapping[str, Any] | None]:
    """A file's rows, and what its columns were taken for (tables only); `base` numbers libsvm's first feature."""
    if not path.exists():
        raise FormatError(path, "there is no such file or folder; check the path")
    form, columns = format_of(path), None
    if form == "arff":
        return read_arff(path, options.labels), None
    names = options.label_names()
    if form in _MATRICES:
        data = _MATRICES[form](path, labels=names)
    elif form == "libsvm":
        data = read_libsvm(path, labels=names, base=base)
    elif form == "jsonl":
        data, columns = _jsonl(path, names, options)
    elif form == "table":
        from lampnet.readers.tables import read_table_and_roles

        data, roles = read_table_and_roles(path, replace(options, labels=names))
        columns = roles.as_given()
    elif form == "fasta":
        data = read_fasta_rows(path, plain_stem(path))
    else:
        data = _plain_text(path)
    return (readable_molecules(data, options.notice) if options.on_bad_row == "skip" else data), columns


def _jsonl(
    path: Path, labels: tuple[str, ...] | None, options: ReadOptions
) -> tuple[Dataset, Mapping[str, Any] | None]:
    """Rows of one input field, or of several parts."""
    from lampnet.readers.jsonl_table import has_parts, read_jsonl_table

    how: dict[str, Any]
    lines, known = read_text_lines(path), options.known
    first = next((line for line in lines if line.strip()), "")
    if not has_parts(first, options.columns, known, path):
        numbered, unlabelled = enumerate(lines, start=1), known is not None and known.unlabelled
        how = {"labels": labels, "on_bad_row": options.on_bad_row, "unlabelled": unlabelled}
        data = read_jsonl_lines(path, numbered, **how, columns=options.columns)
        left_out_here = fields_left_out(path, first, options.columns)
        if left_out_here and options.notice is not None:
            listed = ", ".join(repr(name[:40]) for name in left_out_here[:10])
            options.notice(f"{path.name}: other fields are left out: {listed}")
        return data, None
    how = {"columns": options.columns, "labels": labels, "known": known}
    data, roles = read_jsonl_table(path, enumerate(lines, start=1), **how, on_bad_row=options.on_bad_row)
    if options.notice is not None:
        said = roles.sentence()
        named = roles.labels or data.labels is None
        options.notice(f"{path.name}: {said if named else said.replace('no labels', 'labels from the field labels')}")
    return data, roles.as_given()


def _plain_text(path: Path) -> Dataset:
    lines = [line for line in read_text_lines(path) if line.strip()]
    if not lines:
        raise FormatError(path, "the file is empty; give one text per line", 1)
    return Dataset(name=plain_stem(path), kind="text", rows=lines, labels=None, label_names=())


def readable_molecules(data: Dataset, notice: Callable[[str], None] | None = None) -> Dataset:
    """The same rows without those that RDKit cannot read as molecules; other kinds are left as they are."""
    good = np.ones(len(data), dtype=bool)
    parts = data.rows.parts if isinstance(data.rows, PartRows) else (Part(name="", kind=data.kind, rows=data.rows),)
    for part in parts:
        if part.kind == "molecule":
            good[part.present()] &= readable_smiles(part.rows)
    if good.all():
        return data
    good = np.flatnonzero(good)
    if not len(good):
        raise no_molecule(data.name)
    if notice is not None:
        notice(left_out(data.name, len(data) - len(good), len(data)))
    return data.take(good)


def readable_smiles(rows: Sequence[str]) -> np.ndarray:
    """Which of these RDKit can read, bool (n,)."""
    try:
        from rdkit import Chem, rdBase
    except ImportError:
        raise MissingExtra("rdkit", "molecules", "checking SMILES") from None
    with rdBase.BlockLogs():
        return np.array([bool(smiles) and Chem.MolFromSmiles(smiles) is not None for smiles in rows], dtype=bool)


def left_out(name: str, bad: int, rows: int) -> str:
    return f"{name}: {bad:,} of {rows:,} molecules have invalid SMILES and are left out"


def no_molecule(name: str) -> DataError:
    return DataError(f"{name}: RDKit can read none of the SMILES; is this the right column?")


def _read_folder(path: Path, options: ReadOptions) -> tuple[Splits, Mapping[str, Any] | None]:
    files = find_parts(path)
    base = None
    if all(format_of(file) == "libsvm" for file in files.values()):
        base = min(lowest_index(file) for file in files.values())
    known = options.known and replace(options.known, unlabelled=False)  # the parts get the training part's labels
    train, columns = _read(files["train"], replace(options, known=known), base)
    train = replace(train, name=path.resolve().name)
    later = replace(options, known=None, columns=options.columns if columns is None else columns)
    if base is not None and options.labels is None:
        later = replace(later, labels=train.label_names)  # a list of numbers has no label names of its own to compare
    others = {
        part: replace(_read(files[part], later, base)[0], name=train.name)
        for part in ("valid", "test")
        if part in files
    }
    return aligned_splits(train, others.get("valid"), others.get("test")), columns


def find_parts(folder: str | Path) -> dict[str, Path]:
    """Which file of a folder is the training, validation and test part; two files for one part are an error."""
    folder = Path(folder)
    if not folder.is_dir():
        raise DataError(f"there is no folder {folder}; check the path")
    readable = [file for file in sorted(folder.iterdir()) if file.is_file() and plain_suffix(file) in FORMATS]
    parts: dict[str, list[Path]] = {}
    for exact in (True, False):
        for file in readable:
            stem = plain_stem(file)
            found = _PART.search(stem)
            part = _PARTS.get(stem.lower()) if exact else _PARTS[found.group(1).lower()] if found else None
            if part is not None and (exact or part not in parts or file not in parts[part]):
                parts.setdefault(part, []).append(file)
        if "train" in parts:
            break
    if "train" not in parts:
        data = [file for file in readable if FORMATS[plain_suffix(file)] != "lines"]
        if len(data) == 1 and not parts:
            return {"train": data[0]}
        there = ", ".join(file.name for file in readable[:8]) or "no file of a known format"
        raise DataError(f"the folder {folder} has no train.* file (it has {there}); lampnet reads {_KNOWN}")
    for part, files in parts.items():
        if len(files) > 1:
            raise DataError(
                f"the folder {folder} has {len(files)} files for the {part} part "
                f"({', '.join(file.name for file in files)}); keep one"
            )
    return {part: files[0] for part, files in parts.items()}
