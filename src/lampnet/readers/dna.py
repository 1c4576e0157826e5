"""DNA: FASTA genomes and BED peaks to fixed windows with labels, split by chromosome.

Two ways lead to windows: peaks of many proteins on a genome (a window has a protein's label when a
peak of it begins there), or given windows with a table of labels.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy import sparse

from lampnet.data.dataset import Dataset
from lampnet.data.dna_bases import CODES
from lampnet.errors import DataError, FormatError
from lampnet.readers.files import read_bytes, read_text_lines
from lampnet.runtime.memory_limit import MemoryBudget

_ROMAN = ("I", "II", "III", "IV", "V", "VI", "VII", "VIII", "IX", "X", "XI", "XII", "XIII", "XIV", "XV", "XVI")
#: Bytes of memory for a sequence beside its bases: its name, its array, its places in lists.
_PER_SEQUENCE = 500


@dataclass(frozen=True)
class Peaks:
    """Rows of a BED file: chromosome names and half-open intervals [starts, ends)."""

    chromosomes: tuple[str, ...]
    starts: np.ndarray
    ends: np.ndarray
    names: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.chromosomes)


def arabic(names: Iterable[str]) -> dict[str, str]:
    """One spelling for chromosomes: yeast genomes count in Roman, peak files in Arabic numbers.

    Only names that hold a Roman 2 or 4 are taken for Roman: a human chrX stays as it is.

    >>> arabic(["chrIV", "chrX", "chrM"])
    {'chrIV': 'chr4', 'chrX': 'chr10', 'chrM': 'chrM'}
    >>> arabic(["chr4", "chrX"])
    {'chr4': 'chr4', 'chrX': 'chrX'}
    """
    names = list(names)
    if not {"chrII", "chrIV"} & set(names):
        return {name: name for name in names}
    numbers = {f"chr{roman}": f"chr{number}" for number, roman in enumerate(_ROMAN, start=1)}
    return {name: numbers.get(name, name) for name in names}


def read_fasta(path: str | Path) -> dict[str, np.ndarray]:
    """Sequences by name (the header's first word), each uint8 (length,) of A, C, G, T, N as 0..4."""
    path = Path(path)
    raw = read_bytes(path)
    start = raw.find(b">")
    if start < 0 or raw[:start].strip():
        raise FormatError(path, "a FASTA file begins with a '>' line", 1)
    MemoryBudget(path).check(4 * len(raw) + _PER_SEQUENCE * raw.count(b">"))
    sequences: dict[str, np.ndarray] = {}
    line = 1 + raw.count(b"\n", 0, start)
    for record in re.split(rb"(?m)^>", raw[start:])[1:]:
        head, _, body = record.partition(b"\n")
        words = head.split(None, 1)
        name = words[0].decode("latin-1") if words else ""
        if not name or name in sequences:
            problem = f"the name {name!r} occurs twice" if name else "a '>' line has no name"
            raise FormatError(path, f"{problem}; every sequence needs its own name", line)
        letters = np.frombuffer(body.translate(None, b"\r\n \t*"), dtype=np.uint8)
        codes = CODES[letters]
        wrong = codes == 255
        if wrong.any():
            letter = letters[wrong.argmax()].tobytes()
            problem = f"the sequence {name!r} holds {letter.decode('latin-1')!r}, which is not a base"
            raise FormatError(path, problem, line + 1 + body.count(b"\n", 0, body.find(letter)))
        sequences[name] = codes
        line += record.count(b"\n")
    return sequences


def read_bed(path: str | Path) -> Peaks:
    """A BED file (three columns or more); track, browser and comment lines are left out."""
    path = Path(path)
    chromosomes, starts, ends, names = [], [], [], []
    for number, line in enumerate(read_text_lines(path, "latin-1"), start=1):
        if not line or line.startswith(("#", "track", "browser")) or not line.strip():
            continue
        fields = line.split("\t") if "\t" in line else line.split()
        if len(fields) < 3 or not (fields[1].isdecimal() and fields[2].isdecimal()):
            raise FormatError(path, f"{line[:60]!r} is not a BED line: chromosome, start, end", number)
        start, end = int(fields[1][:18]), int(fields[2][:18])
        if end < start:
            raise FormatError(path, f"the interval ends at {end} before it begins at {start}", number)
        chromosomes.append(fields[0])
        starts.append(start)
        ends.append(end)
        names.append(fields[3] if len(fields) > 3 else "")
    return Peaks(tuple(chromosomes), np.array(starts, dtype=np.int64), np.array(ends, dtype=np.int64), tuple(names))


def windows_with_peaks(
    genome: Mapping[str, np.ndarray],
    peaks: Mapping[str, Peaks],
    width: int = 200,
    *,
    keep_unlabelled: bool = False,
    name: str = "dna",
) -> Dataset:
    """Cut a genome into windows side by side; a window has a label when one of its peaks begins in it.

    Bases left over at a chromosome's end are not used, nor are peaks in them. Windows in which no peak begins are
    left out unless `keep_unlabelled`: most are not known to be free of proteins, merely outside the called peaks.
    The data set has the kind dna, uint8 (n, width); ids `chr4:1200-1400`, groups the chromosome.
    """
    if width < 1:
        raise DataError(f"a window must have at least one base; the width was {width}")
    spelled = arabic(genome)
    sequences = {spelled[chromosome]: codes for chromosome, codes in genome.items()}
    lengths = {chromosome: len(codes) // width for chromosome, codes in sequences.items()}
    if len(lengths) != len(genome):
        raise DataError("two sequences of the genome have the same chromosome name")
    keys = arabic({chromosome for found in peaks.values() for chromosome in found.chromosomes})
    spots = sorted(set(keys.values()), key=_natural)
    if not spots:
        raise DataError("there are no peaks; give BED files with intervals")
    missing = [chromosome for chromosome in spots if chromosome not in lengths]
    if missing:
        raise DataError(f"the peaks lie on {missing[0]!r}, which the genome ({', '.join(sorted(lengths))}) lacks")
    first = dict(zip(spots, np.concatenate([[0], np.cumsum([lengths[c] for c in spots])]).astype(int), strict=False))
    total = sum(lengths[chromosome] for chromosome in spots)
    label_names = tuple(peaks)
    rows, columns = [], []
    for column, found in enumerate(peaks.values()):
        place = found.starts // width
        inside = place < np.array([lengths[keys[chromosome]] for chromosome in found.chromosomes], dtype=np.int64)
        begin = np.array([first[keys[chromosome]] for chromosome in found.chromosomes], dtype=np.int64)
        window = np.unique((place + begin)[inside])
        rows.append(window)
        columns.append(np.full(len(window), column))
    where = (np.concatenate(rows), np.concatenate(columns))
    ones = np.ones(len(where[0]), dtype=np.float32)
    labels = sparse.csr_matrix((ones, where), shape=(total, len(label_names)))
    bases = np.concatenate([sequences[c][: lengths[c] * width].reshape(-1, width) for c in spots])
    groups = np.repeat(np.array(spots), [lengths[chromosome] for chromosome in spots])
    index = np.arange(total) if keep_unlabelled else np.flatnonzero(np.diff(labels.indptr))
    offsets = (index - np.array([first[group] for group in groups[index]])) * width
    return Dataset(
        name=name,
        kind="dna",
        rows=bases[index],
        labels=labels[index],
        label_names=label_names,
        ids=tuple(f"{group}:{at}-{at + width}" for group, at in zip(groups[index], offsets, strict=True)),
        groups=tuple(str(group) for group in groups[index]),
    )


def _natural(name: str) -> tuple[int, str]:
    digits = re.sub(r"\D", "", name)
    return (int(digits[:9]) if digits else 1 << 30, name)


def read_windows(
    sequences: str | Path, table: str | Path, *, genome: str | Path | None = None, name: str = "dna"
) -> Dataset:
    """Windows with a table of labels.

    `sequences` is a FASTA file with one sequence per window, or a BED file (with names) of windows on `genome`; the
    first column of `table` (CSV or TSV) names the window, every other column is a label, 0 or 1.
    """
    from lampnet.readers.delimited import read_delimited
    from lampnet.readers.tables import indicator_columns

    labels = read_delimited(Path(table))
    names = labels.columns[0].texts
    chosen, spots = [], []
    groups: tuple[str, ...] | None
    if genome is None:
        found = read_fasta(sequences)
        for window, line in zip(names, labels.lines, strict=True):
            if window not in found:
                raise FormatError(table, f"the window {window!r} has no sequence of that name", line)
            chosen.append(found[window])
        groups = _groups_of(names)
    else:
        peaks, whole = read_bed(sequences), read_fasta(genome)
        spelled, keys = arabic(whole), arabic(set(peaks.chromosomes))
        by_key = {spelled[chromosome]: codes for chromosome, codes in whole.items()}
        place = {window: number for number, window in enumerate(peaks.names)}
        for window, line in zip(names, labels.lines, strict=True):
            if window not in place:
                raise FormatError(table, f"the window {window!r} is not in {sequences}", line)
            number = place[window]
            key = keys[peaks.chromosomes[number]]
            codes = by_key.get(key, np.zeros(0, dtype=np.uint8))
            if peaks.ends[number] > len(codes):
                raise FormatError(table, f"the window {window!r} lies outside the genome's {key}", line)
            chosen.append(codes[peaks.starts[number] : peaks.ends[number]])
            spots.append(key)
        groups = tuple(spots)
    widths = {len(codes) for codes in chosen}
    if len(widths) != 1 or 0 in widths:
        raise DataError(f"{sequences}: the windows have {len(widths)} different lengths; all must have the same")
    rows, ids, label_names = np.stack(chosen), tuple(names), labels.names[1:]
    y = indicator_columns(labels, label_names)
    return Dataset(name=name, kind="dna", rows=rows, labels=y, label_names=label_names, ids=ids, groups=groups)


def _groups_of(names: Sequence[str]) -> tuple[str, ...] | None:
    """Chromosomes, where windows are named `chr8:100-300` or `chr8_100_300`."""
    found = [re.match(r"(chr[0-9A-Za-z]+)[:_]", name) for name in names]
    return tuple(match.group(1) for match in found if match) if all(found) else None


def read_fasta_rows(path: str | Path, name: str = "dna") -> Dataset:
    """A FASTA file of equally long sequences as rows without labels (for prediction)."""
    path = Path(path)
    found = read_fasta(path)
    width = len(next(iter(found.values())))
    for sequence, codes in found.items():
        if len(codes) != width or not width:
            raise FormatError(
                path, f"the sequence {sequence!r} has {len(codes)} bases, the first one {width}; all must have the same"
            )
    rows = np.stack(list(found.values()))
    return Dataset(name=name, kind="dna", rows=rows, labels=None, label_names=(), ids=tuple(found))
