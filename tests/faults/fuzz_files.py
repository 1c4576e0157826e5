"""Thousands of damaged, growing and expanding data files.

    python fuzz_files.py damage|growth|expansion FOLDER CASES SEED

Prints the summary of `bounded_cases.run_cases` as JSON. A case of damage reads a damaged file. A case of growth puts
something into a file many times, and ten times as often: the CPU time may grow by a factor of twelve at most. A case
of expansion reads a small Arrow, Parquet or array file that stands for any amount of data.
"""

from __future__ import annotations

import bz2
import gc
import gzip
import io
import json
import random
import sys
import tarfile
import time
import warnings
import zipfile
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from bounded_cases import Bounds, run_cases
from damage import damaged
from PIL import Image
from pyarrow import feather, parquet
from scipy import io as matlab
from scipy import sparse

from lampnet.config import InputConfig
from lampnet.data.dataset import Dataset
from lampnet.data.splits import Splits
from lampnet.data.statistics import statistics
from lampnet.encoders.image import ImageEncoder
from lampnet.errors import DataError, LampnetError
from lampnet.readers import dna, label_edges
from lampnet.readers.any_format import read
from lampnet.readers.arff_header import read_label_names
from lampnet.readers.label_values import read_label_values
from lampnet.readers.named import rcv1, reuters
from lampnet.readers.named.addresses import Address
from lampnet.readers.named.content_check import check_content
from lampnet.readers.named.unpack import unpack
from lampnet.readers.row_chunks import chunks
from lampnet.readers.sources import Source
from lampnet.readers.table_chunks import TableChunks
from lampnet.runtime.memory_limit import limited_to

#: What the readers may take; the process has more, so that going beyond it shows.
READERS_MEMORY = 400_000_000
LABELS = ("alpha", "beta", "gamma")
Reader = Callable[[Path, random.Random], object]

_ATTRIBUTES = "@attribute a numeric\n@attribute b {0,1}\n@attribute c {red,'dark blue'}\n@attribute d string\n"
_HEAD = f"@relation r\n{_ATTRIBUTES}@attribute y1 {{0,1}}\n@attribute y2 {{0,1}}\n@data\n"
_XML = '<labels xmlns="http://mulan.sourceforge.net/labels"><label name="y1"/><label name="y2"/></labels>'
_TEXTS = {
    "dense.arff": _HEAD + "1.5,0,red,'it\\'s',1,0\n2,1,?,\"x, y\",0,1\n?,0,'dark blue',z,1,1\n% end\n",
    "sparse.arff": _HEAD.replace("d string", "d numeric") + "{0 1.5,2 'dark blue',4 1}\n{1 1,5 1}\n{}\n",
    "numbers.arff": "@relation 'r: -C -1'\n@attribute a numeric\n@attribute y {0,1}\n@data\n1,0\n2.5,1\n",
    "meka.arff": "@relation 'r: -C 1'\n@attribute y {1,0}\n@attribute w {0,1}\n@data\n{0 1,1 1}\n{}\n",
    "rows.jsonl": '{"text": "red fox", "labels": ["a", "b"], "id": "x"}\n{"text": "\\ud83d\\ude00", "labels": []}\n',
    "unknown.jsonl": '{"text": "red fox", "labels": ["a", "b"]}\n{"text": "blue sea"}\n',
    "features.jsonl": '{"features": {"a": 1, "b": 2.5}, "labels": ["x"]}\n{"features": {}, "labels": ["y"]}\n',
    "vectors.jsonl": '{"features": [1, 2.5], "labels": ["x"]}\n{"features": [0, 1e-3], "labels": ["y"]}\n',
    "dna.jsonl": '{"dna": "ACGTNACGTA", "labels": ["x"]}\n{"dna": "TTTTACGTAC", "labels": ["y"]}\n',
    "molecules.jsonl": '{"smiles": "CCO", "labels": ["x"]}\n{"smiles": "c1ccccc1", "labels": []}\n',
    "table.csv": "text,labels\nred fox at sea,a|b\nblue sea and sky,a\n",
    "lists.csv": 'id,text,labels\n1,"a ""quoted"" text","[""a"", ""b""]"\n2,two words here,"[]"\n',
    "python.csv": "text,labels\nred fox at sea,\"['a', 'b']\"\nblue sea,\"('it\\'s',)\"\nsky,\"[]\"\n",
    "numbers.csv": "f1,f2,colour,label_a,label_b\n1.5,2,red,0,1\n2.5,,blue,1,\n",
    "table.tsv": "text\tlabels\nred fox at sea\ta;b\nblue \"sea and sky\tb\n",
    "rows.libsvm": "0,1 1:0.5 7:1\n1 2:1 # c\n 3:2.5\n",
    "rows.svm": "a,b qid:1 1:0.5 7:1\nb 2:1e-3\n",
    "xc.txt": "2 5 3\n0,2 1:0.5 4:1\n1 0:2\n",
    "windows.fa": ">one first\nACGTNACGTA\n>two\nTTTTACGTAC\n",
    "plain.txt": "red fox\nblue sea\n",
}  # fmt: skip
_BESIDE = {
    "labels.xml": _XML,
    "labels.list": "alpha\nbeta\n",
    "reut2-000.sgm": '<REUTERS TOPICS="YES" LEWISSPLIT="TRAIN" NEWID="1">\n<TOPICS><D>a</D><D>b</D></TOPICS>\n<TEXT '
    'TYPE="NORM">&#2;<TITLE>T</TITLE><BODY>b &lt;c> &#38;</BODY></TEXT>\n</REUTERS>\n',
    "tokens.dat": ".I 1\n.W\na b\n\n.I 2\n.W\nc\n",
    "topics.qrels": "E11 1 1\nCCAT 2 1\n",
    "peaks.bed": "track x\nchr1\t1\t2\ta\nchr2 5 9 b\n",
    "topics.taxonomy": "Root\talpha\tbeta\nalpha\tgamma\n",
    "topics.hier": "parent: None child: Root child-description: x\nparent: Root child: alpha child-description: y\n"
    "parent: alpha child: beta child-description: y\nparent: alpha child: gamma child-description: y\n",
    "edges.csv": "source,target\nalpha,beta\nbeta,gamma\n",
    "parents.csv": "parent,child\nalpha,beta\nalpha,gamma\n",
    "parents.taxonomy": "Root\talpha\nalpha\tbeta\tgamma\n",
    "weights.csv": "# rare ones\nalpha,2\nbeta,0.5\n",
    "weights.tsv": "alpha\tof the first\nbeta\tof the second\n",
    "weights.json": '{"alpha": 2, "beta": 0.5, "gamma": "rare"}',
    "edges.tsv": "alpha\tbeta\nbeta\tgamma\n",
    "1.protein.links.txt": "p1 p2 score\n1.A 1.B 800\n1.B 1.C 900\n",
    "1.protein.info.txt": "id\tname\n1.A\talpha\n1.B\tbeta\n1.C\tgamma\n",
}


def _write_binary(folder: Path) -> None:
    draw = np.random.default_rng(0)
    texts = ["red fox", "blue sea"] * 5
    table = pa.table({"text": texts, "labels": ["a|b", "b"] * 5, "n": draw.random(10), "when": [None, 3] * 5})
    lists = pa.table({"text": texts, "labels": [["a", "b"], [], None, ["b"], ["c"]] * 2, "s": [{"x": 1}] * 10})
    parquet.write_table(table, folder / "rows.parquet")
    parquet.write_table(lists, folder / "lists.parquet", compression="gzip", data_page_version="2.0", row_group_size=4)
    parquet.write_table(
        table.select(["text", "labels"]), folder / "delta.parquet", compression="zstd", use_dictionary=False,
        column_encoding={"text": "DELTA_BYTE_ARRAY", "labels": "DELTA_LENGTH_BYTE_ARRAY"},
    )  # fmt: skip
    feather.write_feather(lists, folder / "lists.feather", compression="zstd")
    coded = pa.array(["a", "b"] * 5).dictionary_encode()
    runs = pa.RunEndEncodedArray.from_arrays(pa.array([4, 10], pa.int32()), ["a", "b"])
    views = pa.array([["a"], ["b", "c"]] * 5, pa.list_view(pa.string()))
    for name, column in (("coded", coded), ("runs", runs), ("views", views)):
        rows = pa.table(
            {"text": pa.array(texts, pa.string_view() if name == "views" else pa.string()), "labels": column}
        )
        new = pa.ipc.new_stream if name == "runs" else pa.ipc.new_file
        with new(folder / f"{name}.arrow", rows.schema) as writer:
            writer.write_table(rows)
    np.savez(folder / "dense.npz", X=draw.random((4, 3)), Y=np.eye(4, 2), label_names=["a", "b"])
    np.savez_compressed(
        folder / "bits.npz", X=np.eye(4, 3, dtype=np.uint8), Y=-np.ones((4, 2)), feature_names=list("abc")
    )
    X = sparse.csr_matrix(np.eye(4, 6))
    sparse.save_npz(folder / "sparse.npz", X)
    matlab.savemat(folder / "rows.mat", {"data": X, "target": np.eye(2, 4)})
    matlab.savemat(folder / "packed.mat", {"X": np.eye(4, 3), "Y": np.eye(4, 2)}, do_compression=True)
    (folder / "rows.jsonl.gz").write_bytes(gzip.compress(_TEXTS["rows.jsonl"].encode(), mtime=0))
    (folder / "table.csv.bz2").write_bytes(bz2.compress(_TEXTS["table.csv"].encode()))
    _write_archives(folder)
    picture = Image.fromarray(draw.integers(0, 256, (24, 24, 3), dtype=np.uint8))
    for ending in ("png", "jpeg", "gif", "bmp", "webp", "tiff"):
        picture.save(folder / f"picture.{ending}")


def _write_archives(folder: Path) -> None:
    """As publishers offer them: stored and compressed members, in folders and with a comment."""
    members = {"set/dense.arff": _TEXTS["dense.arff"], "set/labels.xml": _XML, "set/read me.txt": "about the set"}
    for name, packing in (("fetched.zip", zipfile.ZIP_DEFLATED), ("stored.zip", zipfile.ZIP_STORED)):
        with zipfile.ZipFile(folder / name, "w", packing) as archive:
            archive.comment = b"a set"
            for member, text in members.items():
                archive.writestr(zipfile.ZipInfo(member), text)
    for name, form in (("plain.tar", tarfile.GNU_FORMAT), ("pax.tar", tarfile.PAX_FORMAT)):
        with tarfile.open(folder / name, "w", format=form) as tar:
            for member, text in members.items():
                info = tarfile.TarInfo(member if form == tarfile.GNU_FORMAT else f"{'long/' * 30}{member}")
                info.size = len(text)
                tar.addfile(info, io.BytesIO(text.encode()))
    (folder / "fetched.tar.gz").write_bytes(gzip.compress((folder / "plain.tar").read_bytes(), mtime=0))


def _rows(path: Path, draw: random.Random) -> None:
    """As a command would: with labels where they are needed, then what `lampnet data info` asks."""
    labels = ("y1", "y2") if path.name in ("dense.arff", "sparse.arff") else None
    data = read(path, labels=labels, on_bad_row=draw.choice(("error", "skip")))
    for name in (*data.label_names, *(data.ids or ()), *(data.feature_names or ())):
        name.encode()
    if data.labels is not None:
        statistics(Splits(train=data))


def _streamed(path: Path, draw: random.Random) -> None:
    list(chunks(Source(data=str(path), on_bad_row=draw.choice(("error", "skip"))), "test", 0, size=2))


def _chunked(path: Path, draw: random.Random) -> None:
    found = TableChunks(path, size=None if path.stem == "many" else draw.choice((2, 3, 1000)))
    for _ in found:  # a chunk at a time, as `lampnet prepare` reads it
        pass
    found.labels()


def _picture(path: Path, draw: random.Random) -> None:
    ImageEncoder(InputConfig()).fit([path]).encode([path])


def _interactions(path: Path, draw: random.Random) -> None:
    folder = path.parent.parent / "seeds"
    both = (path, folder / "1.protein.info.txt") if "links" in path.name else (folder / "1.protein.links.txt", path)
    label_edges.read_string_edges(*both, LABELS)


def _windows(path: Path, draw: random.Random) -> Dataset:
    return dna.windows_with_peaks(
        dna.read_fasta(path.parent.parent / "seeds" / "genome.fa"), {"a": dna.read_bed(path)}, 4
    )


def _hierarchy(path: Path, draw: random.Random) -> None:
    """As a training would: the edges, then what asks for all that is above a label."""
    found = label_edges.read_label_hierarchy(path, LABELS)
    assert len(found.ancestors) == len(LABELS)
    label_edges.hierarchy_graph(found)


def _values(path: Path, draw: random.Random) -> None:
    for name, given in read_label_values(path, "weight").items():
        name.encode()
        given.place.encode()


_FETCHED = Address("https://example.org", "fetched", (("*.arff", ""), ("*.xml", "names")))


def _fetched(path: Path, draw: random.Random) -> None:
    """As `lampnet data fetch` does with what came, which says what the system said."""
    inside = path.parent.parent / "unpacked"
    try:
        if path.suffix != ".tar":  # which only an older name of a publisher's would be
            check_content(path, path.name)
        if path.suffix in (".zip", ".tar", ".gz"):
            for name in unpack(path, _FETCHED, inside):
                assert (inside / name).resolve().is_relative_to(inside.resolve())
    except OSError as fault:
        raise DataError(f"{path.name} cannot be written ({fault.strerror or fault})") from None


def _ignoring_choices(read: Callable[[Path], object]) -> Reader:
    return lambda path, draw: read(path)


READERS: dict[str, Reader] = {
    "labels.xml": _ignoring_choices(read_label_names),
    "labels.list": _ignoring_choices(read_label_names),
    "reut2-000.sgm": _ignoring_choices(lambda path: list(reuters.read_documents(path))),
    "tokens.dat": _ignoring_choices(lambda path: list(rcv1.read_tokens(path))),
    "topics.qrels": _ignoring_choices(rcv1.read_qrels),
    "peaks.bed": _windows,
    "topics.taxonomy": _ignoring_choices(lambda path: label_edges.label_graph_edges(path, LABELS)),
    "topics.hier": _ignoring_choices(lambda path: label_edges.label_graph_edges(path, LABELS)),
    "edges.csv": _ignoring_choices(lambda path: label_edges.label_graph_edges(path, LABELS)),
    "edges.tsv": _ignoring_choices(lambda path: label_edges.label_graph_edges(path, LABELS)),
    "1.protein.links.txt": _interactions,
    "1.protein.info.txt": _interactions,
    "parents.csv": _hierarchy,
    "parents.taxonomy": _hierarchy,
    "weights.csv": _values,
    "weights.tsv": _values,
    "weights.json": _values,
}


def readers_of(name: str) -> list[Reader]:
    """All that read a file of this name."""
    if name.endswith((".zip", ".tar", ".tar.gz")):
        return [_fetched]
    if name in READERS:
        return [READERS[name]]
    if name.startswith("picture."):
        return [_picture]
    if ".jsonl" in name:
        return [_rows, _streamed]
    if name.endswith((".parquet", ".arrow", ".feather")):
        return [_rows, _chunked]
    return [_rows, _rows, _fetched] if name.endswith((".arff", ".txt")) else [_rows]


def write_seeds(folder: Path) -> list[Path]:
    """One small good file of every format and every variety of it."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder.parent / "case").mkdir(exist_ok=True)
    for name, text in {**_TEXTS, **_BESIDE}.items():
        (folder / name).write_text(text)
    _write_binary(folder)
    seeds = sorted(path for path in folder.iterdir() if path.name != "genome.fa")
    (folder / "genome.fa").write_text(">chr1\nACGTACGTAC\n>chr2\nACGTACGTACGT\n")
    return seeds


def read_case(folder: Path, name: str, content: bytes, draw: random.Random) -> None:
    target = folder / "case" / name
    target.write_bytes(content)
    with limited_to(READERS_MEMORY):
        draw.choice(readers_of(name))(target, draw)


def damage_case(folder: Path, seeds: list[Path], seed: str, number: int) -> None:
    draw = random.Random(f"{seed} {number}")
    path = draw.choice(seeds)
    read_case(folder, path.name, damaged(path.read_bytes(), draw), draw)


MOST_GROWTH = 12.0
_TIMES = 4000
_MEASURABLE = 0.05
_FRAGMENTS = (
    " ", "\t", ",", "'", '"', "\\", "\\'", "{", "}", "[", "]", ":", "1", "1 ", "1:", "1:1 ", "0,", "-", ".", "e", "?",
    "%", "a", "A", "a,", "a b ", '""', "'a',", "@", "\n", "\r", "\n\n", "<", ">", "&", "&#1;", "<D>", "<TEXT>",
    "<REUTERS ", "<TOPICS>", "<label>", 'a="', "\ufeff", "é", "😀", ";", "|", "#", "(", "-C ", ">a\n", "{}\n", "[[",
    '{"a":',
)  # fmt: skip
_TEXT_SEEDS = (*_TEXTS, *_BESIDE)


def grown(content: str, draw: random.Random) -> Callable[[int], bytes]:
    """The content with something put into it so many times: a sign, a word, a line, or lines that differ."""
    place = draw.randrange(len(content) + 1)
    kind = draw.randrange(4)
    lines = content.splitlines(keepends=True)
    if kind == 0:
        fragment = "".join(draw.choices(_FRAGMENTS, k=draw.choice((1, 1, 2, 3))))
    elif kind == 1:
        fragment = content[place : place + draw.choice((1, 2, 5, 20))]
    else:
        line = draw.randrange(len(lines))
        fragment, place = lines[line], sum(map(len, lines[:line]))
    words = [word for word in fragment.split() if word.isalnum()]
    if kind == 3 and words:  # names that differ, so that tables of names grow
        word = draw.choice(words)
        return lambda n: (
            content[:place] + "".join(fragment.replace(word, f"{word}{i}") for i in range(n)) + content[place:]
        ).encode()
    return lambda n: (content[:place] + fragment * n + content[place:]).encode()


def growth_case(folder: Path, seeds: list[Path], seed: str, number: int) -> None:
    """The seconds are of CPU; a measurement that says too much is taken again, as the machine may be busy.

    Python's garbage collector, whose passes come in leaps, is off meanwhile.
    """
    draw = random.Random(f"{seed} {number}")
    name = draw.choice(_TEXT_SEEDS)
    make = grown((folder / "seeds" / name).read_text(), draw)
    choices = draw.random()

    def seconds(times: int) -> float:
        gc.collect()
        gc.disable()
        try:
            begun = time.process_time()
            with suppress(LampnetError):  # a refusal takes its time too
                read_case(folder, name, make(times), random.Random(choices))
            return time.process_time() - begun
        finally:
            gc.enable()

    small, large = seconds(_TIMES), seconds(10 * _TIMES)
    for _ in range(6):
        if large < _MEASURABLE or large <= MOST_GROWTH * small:
            return
        small, large = max(small, seconds(_TIMES)), min(large, seconds(10 * _TIMES))
    raise AssertionError(f"{name}: {large / small:.0f} times the time for ten times {make(1)[:80]!r}")


#: bytes of text, and words in lists, that a column stands for at most: many times the memory that readers may take
MOST_TEXT, MOST_WORDS = 10**10, 10**8
_CPU_SECONDS = {"damage": 10.0, "growth": 60.0, "expansion": 400.0}


def expansion_case(folder: Path, seeds: list[Path], seed: str, number: int) -> None:
    draw = random.Random(f"{seed} {number}")
    count = draw.choice((10, 10**3, 10**5, 10**6, 10**7))
    column, labels = _repeated(draw, count), _repeated(draw, count)
    table = pa.table({"text": column, "labels": labels})
    out = io.BytesIO()
    # pyarrow writes all others to Parquet by making what they stand for.
    simple = all(str(kind).startswith("dictionary<values=string") or kind == pa.null() for kind in table.schema.types)
    form = "parquet" if simple and draw.random() < 0.8 else "arrow"
    if form == "arrow":
        with draw.choice((pa.ipc.new_file, pa.ipc.new_stream))(out, table.schema) as writer:
            writer.write_table(table)
    else:
        parquet.write_table(
            table, out, compression=draw.choice(("none", "zstd", "gzip")),
            data_page_version=draw.choice(("1.0", "2.0")), store_schema=draw.random() < 0.5,
            row_group_size=draw.choice((10**4, 10**8)),
        )  # fmt: skip
    content = out.getvalue()
    read_case(folder, f"many.{form}", damaged(content, draw) if draw.random() < 0.2 else content, draw)


def _repeated(draw: random.Random, count: int) -> Any:
    """`count` cells that take little room in the file, whatever they stand for."""
    # Chunk by chunk, the time grows with what a file stands for: more than this would only take longer.
    text = "x" * draw.choice([length for length in (0, 1, 100, 10**4, 10**6) if length * count <= MOST_TEXT])
    one = pa.array([text, "y"])
    zeros = pa.array(np.zeros(count, dtype=np.int8))
    kind = draw.choice((0, 0, 0, 0, 1, 2, 3, 4, 5, 6))
    if kind == 0:
        return pa.DictionaryArray.from_arrays(zeros, one)
    if kind == 1:
        return pa.RunEndEncodedArray.from_arrays(pa.array([count], pa.int64()), one.slice(0, 1))
    if kind == 2:
        return pa.nulls(count, draw.choice((pa.null(), pa.string(), pa.float64(), pa.list_(pa.string()))))
    words = pa.DictionaryArray.from_arrays(pa.array(np.zeros(1000, dtype=np.int8)), one)
    length = min(1000, MOST_WORDS // count)
    if kind == 3:
        first, lengths = np.zeros(count, dtype=np.int32), np.full(count, draw.choice((0, 1, length)), dtype=np.int32)
        return pa.ListViewArray.from_arrays(pa.array(first), pa.array(lengths), words)
    if kind == 4:
        inner = pa.ListArray.from_arrays(pa.array([0, length], pa.int32()), words)
        return pa.DictionaryArray.from_arrays(zeros, inner)
    if kind == 5:
        views = pa.array([text or "z"], pa.string_view())
        same = pa.py_buffer(views.buffers()[1].to_pybytes()[:16] * count)
        return pa.Array.from_buffers(pa.string_view(), count, [None, same, *views.buffers()[2:]])
    runs = pa.RunEndEncodedArray.from_arrays(pa.array([count * length], pa.int64()), one.slice(0, 1))
    return pa.FixedSizeListArray.from_arrays(runs, length)


KINDS: dict[str, Callable[[Path, list[Path], str, int], None]] = {
    "damage": damage_case,
    "growth": growth_case,
    "expansion": expansion_case,
}


def main() -> None:
    kind, folder, cases, seed = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
    warnings.simplefilter("ignore")
    seeds = write_seeds(folder / "seeds")
    bounds = Bounds(cpu_seconds=_CPU_SECONDS[kind])
    print(
        json.dumps(
            run_cases(partial(KINDS[kind], folder, seeds, seed), cases, bounds, warm=60 if kind == "damage" else 2)
        )
    )


if __name__ == "__main__":
    main()
