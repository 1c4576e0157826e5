"""Prepared rows: encoded once, kept as NumPy arrays in a folder, read by memory mapping.

==================== =====================================================================
prepared.json        format, settings, label names, encoder, the parts with their digests
encoder.safetensors  encoder and base learners
train/*.npy          nodes (offsets, ids, values, ...), labels (CSR) and base logits of the rows; no base logits
                     where many rows were prepared for a model without a network
valid/*.npy          the same of the validation rows; valid_other/ where rows have a second view
==================== =====================================================================

The mapped pages belong to the system's cache, not to the process: `release` hands them back, so a
training needs the memory of a few batches, however large the arrays are.
"""

from __future__ import annotations

import hashlib
import json
import mmap
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import numpy as np
import torch
from scipy import sparse

from lampnet.base_learners.restore import restore_stack
from lampnet.base_learners.stack import Stack
from lampnet.config import Config
from lampnet.data.label_priors import smoothed_share
from lampnet.encoders import restore_encoder
from lampnet.encoders.base import Encoder
from lampnet.encoders.nodes import ARRAYS, NodeRows
from lampnet.errors import DataError, LampnetError
from lampnet.inference.examples import Examples
from lampnet.persistence.tensor_file import arrays_under, read_arrays, read_header, write_arrays
from lampnet.runtime.atomic_files import flush_folder, flush_to_disk, write_atomically
from lampnet.runtime.limited_json import parse_json
from lampnet.runtime.regular_files import open_regular, read_regular
from lampnet.runtime.torch_state import seeded

MANIFEST, LEARNED = "prepared.json", "encoder.safetensors"
FORMAT, VERSION = "lampnet-prepared", 3
PARTS = ("train", "valid", "valid_other")
#: features that the base learners learn from, while a folder is being prepared
SPOOL = "features"
MAX_MANIFEST = 64_000_000
LABEL_ARRAYS = ("label_offsets", "label_ids", "label_values")
#: what each array may be, and how many axes it has where that is not one
_INT32, _FLOAT32 = ("<i4",), ("<f4",)
_DTYPES: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("offsets", "edge_offsets", "label_offsets"), ("<i8",)),
    **dict.fromkeys(("ids", "positions", "edges", "label_ids"), _INT32),
    **dict.fromkeys(("values", "label_values", "base_logits"), _FLOAT32),
    "vectors": ("<f4", "|u1"),
}
_AXES = {"vectors": 2, "positions": 2, "edges": 2, "base_logits": 3}
#: what each kind of offsets counts
_OFFSETS = {
    "offsets": ("ids", "values", "vectors", "positions"),
    "edge_offsets": ("edges",),
    "label_offsets": ("label_ids", "label_values"),
}
_TRIED_WIDTH = 8
#: what stands before an array's name where rows have several parts
_OF_A_PART = re.compile(r"^part\d{1,4}\.")
_HEADER = 128  # bytes before the numbers of an .npy file
_BLOCK = 1 << 22  # numbers that are looked at together


class GrowingArray:
    """An .npy file to which rows are appended; its header is written last, when the length is known."""

    def __init__(self, path: Path, like: np.ndarray) -> None:
        self.path, self.dtype, self.shape_after = path, like.dtype, like.shape[1:]
        self.length = 0
        self.digest = hashlib.sha256()
        # Nothing is there: what could not be removed before may lead elsewhere.
        self.file: IO[bytes] = os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666), "wb")
        self.file.write(b"\0" * _HEADER)

    def append(self, rows: np.ndarray) -> None:
        content = np.ascontiguousarray(rows, dtype=self.dtype).tobytes()
        self.file.write(content)
        self.digest.update(content)
        self.length += len(rows)

    def empty(self) -> np.ndarray:
        """What the file holds where nothing was appended: an empty file cannot be mapped."""
        return np.zeros((0, *self.shape_after), self.dtype)

    def close(self) -> dict[str, Any]:
        """Finish the file; returns what the manifest says of it."""
        shape = (self.length, *self.shape_after)
        described = repr({"descr": self.dtype.str, "fortran_order": False, "shape": shape}).encode()
        room = _HEADER - 10
        self.file.seek(0)
        self.file.write(b"\x93NUMPY\x01\x00" + room.to_bytes(2, "little") + described.ljust(room - 1) + b"\n")
        self.file.flush()
        flush_to_disk(self.file.fileno())
        self.file.close()
        return {"dtype": self.dtype.str, "shape": list(shape), "sha256": self.digest.hexdigest()}


class PartWriter:
    """The arrays of one part (training or validation rows), one chunk at a time."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.folder.mkdir(parents=True, exist_ok=True)
        self.arrays: dict[str, GrowingArray] = {}
        self.ends: dict[str, int] = {}  # where the last row of each kind of offsets ends
        self.rows = 0

    def append(self, nodes: NodeRows, labels: sparse.csr_matrix) -> None:
        """Rows with their labels (CSR (n, L))."""
        chunks: dict[str, np.ndarray | None] = {**nodes.arrays()}
        labels = sparse.csr_matrix(labels)
        chunks |= dict(zip(LABEL_ARRAYS, (labels.indptr, labels.indices, labels.data), strict=True))
        for name, chunk in chunks.items():
            if chunk is not None:
                self._append(name, chunk)
        self.rows += len(nodes)

    def append_base_logits(self, base_logits: np.ndarray) -> None:
        """Base logits (n, L, K) of the next rows, which may have been appended long ago."""
        self._append("base_logits", base_logits)

    def _append(self, name: str, chunk: np.ndarray) -> None:
        if name.endswith("offsets"):
            chunk = chunk.astype(np.int64) + self.ends.get(name, 0)
            self.ends[name], chunk = int(chunk[-1]), chunk[1:] if name in self.arrays else chunk
        elif name == "label_ids":
            chunk = chunk.astype(np.int32)
        elif name == "label_values":
            chunk = chunk.astype(np.float32)
        if name not in self.arrays:
            self.arrays[name] = GrowingArray(self.folder / f"{name}.npy", chunk)
        self.arrays[name].append(chunk)

    def abandon(self) -> None:
        """Let go of the files; those that `close` has finished are whole."""
        for array in self.arrays.values():
            array.file.close()

    def close(self) -> dict[str, Any]:
        described = {"rows": self.rows, "arrays": {name: array.close() for name, array in self.arrays.items()}}
        flush_folder(self.folder)
        return described


@dataclass(frozen=True)
class LabelRows:
    """Memory-mapped labels; indexing with row numbers gives dense float32 (B, L), NaN where unknown."""

    offsets: np.ndarray
    ids: np.ndarray
    values: np.ndarray
    n_labels: int

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def label_priors(self) -> np.ndarray:
        """As `lampnet.data.label_priors.label_priors`, float32 (L,), one block of the stored labels at a time."""
        has, unknown = np.zeros(self.n_labels), np.zeros(self.n_labels)
        for first in range(0, len(self.ids), _BLOCK):
            ids, values = (array[first : first + _BLOCK] for array in (self.ids, self.values))
            has += np.bincount(ids, np.nan_to_num(values), self.n_labels)
            unknown += np.bincount(ids, np.isnan(values), self.n_labels)
        return smoothed_share(has, len(self) - unknown)

    def __getitem__(self, rows: np.ndarray) -> np.ndarray:
        starts, counts = self.offsets[rows], self.offsets[rows + 1] - self.offsets[rows]
        row_E = np.repeat(np.arange(len(rows)), counts)
        place_E = np.repeat(starts - (np.cumsum(counts) - counts), counts) + np.arange(len(row_E))
        dense = np.zeros((len(rows), self.n_labels), dtype=np.float32)
        dense[row_E, self.ids[place_E]] = self.values[place_E]
        return dense


@dataclass(kw_only=True)
class Manifest:
    """What the last file of a prepared folder states about it.

    parts    of each part, its rows and arrays
    columns  what the columns of the table were taken for
    """

    name: str
    config: Config
    label_names: tuple[str, ...]
    encoder: Encoder
    stack: Stack | None
    parts: dict[str, Any]
    columns: dict[str, Any] = field(default_factory=dict)


@dataclass(kw_only=True)
class MappedRows(Manifest):
    """A prepared folder, opened; `parts` has train, valid and, for rows with a second view, valid_other."""

    parts: dict[str, Examples]
    maps: list[mmap.mmap] = field(default_factory=list)

    def release(self) -> None:
        """Hand mapped pages back to the system; they are read again from its cache where needed."""
        for mapped in self.maps:
            mapped.madvise(mmap.MADV_DONTNEED)

    def mapped_bytes(self) -> int:
        """The size of all mapped arrays."""
        return sum(len(mapped) for mapped in self.maps)


def write_manifest(folder: Path, manifest: Manifest) -> None:
    """The last file of a prepared folder: with it the folder is whole."""
    arrays = {f"encoder.{key}": value for key, value in manifest.encoder.arrays().items()}
    if manifest.stack is not None:
        arrays |= {f"stack.{key}": value for key, value in manifest.stack.arrays().items()}
    content = {
        "format": FORMAT,
        "version": VERSION,
        "name": manifest.name,
        "config": manifest.config.to_json(),
        "label_names": list(manifest.label_names),
        "encoder": {"kind": manifest.encoder.kind, "state": manifest.encoder.state()},
        "learned_sha256": write_arrays(folder / LEARNED, arrays),
        "parts": manifest.parts,
        "columns": manifest.columns,
    }
    write_atomically(folder / MANIFEST, json.dumps(content, indent=1, ensure_ascii=False).encode())


def is_prepared(path: str | Path) -> bool:
    """Whether a path is a folder that `lampnet prepare` wrote."""
    return (Path(path) / MANIFEST).is_file()


def describe_prepared(folder: Path) -> str:
    """What a prepared folder holds, for a sentence."""
    try:
        manifest = _read_manifest(folder)
        rows, labels = manifest["parts"]["train"]["rows"], len(manifest["label_names"])
        return f"prepared data of {str(manifest['name'])[:80]!r} ({rows:,} training rows, {labels:,} labels)"
    except (LampnetError, OSError, ValueError, KeyError, TypeError):
        return "prepared data that is damaged"


def _read_manifest(folder: Path) -> Any:
    manifest = parse_json(read_regular(folder / MANIFEST, MAX_MANIFEST))
    version = manifest["version"]
    if manifest["format"] != FORMAT or type(version) is not int or version != VERSION:
        raise DataError(f"{folder} has format version {str(version)[:20]}; prepare the data again")
    return manifest


def open_prepared(folder: str | Path, verify: bool = True, pretrained: str | None = None) -> MappedRows:
    """Open a prepared folder; nothing but its description is kept in memory.

    verify      read all arrays once and compare them with their digests
    pretrained  the folder of the text encoder that it was prepared with, if it was; by default LAMPNET_PRETRAINED

    Raises
    ------
    DataError
        The folder is damaged, unfinished or of another version.
    """
    folder = Path(folder)
    try:
        manifest = _read_manifest(folder)
        config, names = Config.from_json(manifest["config"]), tuple(manifest["label_names"])
        learned = read_arrays(folder / LEARNED, read_header(folder / LEARNED), manifest["learned_sha256"])
        described, own = manifest["encoder"], arrays_under(learned, "encoder.")
        encoder = restore_encoder(described["kind"], config.input, described["state"], own, pretrained)
        stack = None
        if config.model.base_learners:
            stack = restore_stack(config.model.base_learners, arrays_under(learned, "stack."), len(names))
        maps: list[mmap.mmap] = []
        opened = _Opening(
            encoder, len(names), 0 if stack is None else len(stack.names), maps, verify, config.model.network
        )
        parts = {
            part: opened.part(folder / part, described)
            for part, described in manifest["parts"].items()
            if part in PARTS
        }
        if not {"train", "valid"} <= set(parts):
            raise DataError("the training or the validation part is missing")
        columns = dict(manifest.get("columns", {}))
        return MappedRows(
            name=str(manifest["name"]),
            config=config,
            label_names=names,
            encoder=encoder,
            stack=stack,
            parts=parts,
            columns=columns,
            maps=maps,
        )
    except LampnetError as fault:
        raise DataError(f"{folder} cannot be used: {fault}; prepare the data again") from None
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError, OverflowError) as fault:
        raise DataError(
            f"{folder} is not a whole prepared folder ({str(fault)[:150]}); run lampnet prepare again"
        ) from None


@dataclass(frozen=True)
class _Opening:
    """How the parts of a folder are opened. They may have been forged, so every number used as an index is checked."""

    encoder: Encoder
    n_labels: int
    n_learners: int
    maps: list[mmap.mmap]
    verify: bool
    network: bool

    def part(self, folder: Path, described: Mapping[str, Any]) -> Examples:
        arrays: dict[str, np.ndarray] = {}
        digest = hashlib.sha256()
        for name, facts in sorted(described["arrays"].items()):
            plain = _OF_A_PART.sub("", name)
            if plain not in _DTYPES or (plain != name and plain not in ARRAYS):
                raise DataError(f"{folder.name} announces an array {name[:40]!r}, which rows do not have")
            dtype, shape = np.dtype(facts["dtype"]), tuple(facts["shape"])
            if dtype.str not in _DTYPES[plain] or len(shape) != _AXES.get(plain, 1):
                raise DataError(f"{folder.name}: {name}.npy cannot be a {dtype} array {shape}")
            sha256 = facts["sha256"] if self.verify else None
            arrays[name] = _mapped(folder / f"{name}.npy", dtype, shape, self.maps, sha256)
            if name != "base_logits":
                digest.update(f"{name} {facts['sha256']}".encode())
        fault = self._fault(arrays, described["rows"], not self.network and folder.name == "train")
        if fault:
            raise DataError(f"{folder.name}: {fault}")
        nodes = NodeRows.from_arrays(arrays)
        self._try(folder, nodes)
        return Examples(
            nodes=nodes,
            targets=LabelRows(arrays["label_offsets"], arrays["label_ids"], arrays["label_values"], self.n_labels),
            base_logits=arrays.get("base_logits"),
            stored_digest=digest.hexdigest(),
        )

    def _fault(self, arrays: Mapping[str, np.ndarray], rows: Any, may_lack_logits: bool) -> str:
        """What is wrong with the arrays of one part; empty where they fit each other and the encoder."""
        fault = self._fault_of_nodes(arrays, rows, self.encoder)
        parts = self.encoder.part_encoders
        if not fault and {name.partition(".")[0] for name in arrays if "." in name} != {
            f"part{i}" for i in range(len(parts))
        }:
            fault = "the encoder has other parts"
        for number, encoder in enumerate(parts):
            own = arrays_under(arrays, f"part{number}.")
            fault = fault or self._fault_of_nodes(own, rows, encoder)
        if fault:
            return fault
        counted = [arrays[f"part{number}.offsets"] for number in range(len(parts))]
        if parts and not np.array_equal(np.sum(counted, axis=0), arrays["offsets"]):
            return "offsets.npy does not fit the parts of the rows"
        lacking = [name for name in LABEL_ARRAYS if name not in arrays]
        if lacking:
            return f"{lacking[0]}.npy is missing"
        if any(block.min() < 0 or block.max() >= self.n_labels for block in _blocks(arrays["label_ids"])):
            return f"label_ids.npy has numbers outside 0 to {self.n_labels - 1}"
        logits = arrays.get("base_logits")
        if (logits is None and self.n_learners and not may_lack_logits) or (
            logits is not None and (not self.n_learners or logits.shape != (rows, self.n_labels, self.n_learners))
        ):
            return "base_logits.npy does not fit the base learners"
        if not all((np.isnan(block) | (block == 0) | (block == 1)).all() for block in _blocks(arrays["label_values"])):
            return "label_values.npy holds something else than 0, 1 and unknown"
        return ""

    def _fault_of_nodes(self, arrays: Mapping[str, np.ndarray], rows: Any, encoder: Encoder) -> str:
        """What is wrong with the offsets of any array, and with the nodes of one encoder."""
        for offsets, counted in _OFFSETS.items():
            if offsets not in arrays:
                if any(name in arrays for name in counted):
                    return f"{offsets}.npy is missing"
                continue
            places = arrays[offsets]
            if len(places) != rows + 1 or places[0] != 0 or (np.diff(places) < 0).any():
                return f"{offsets}.npy does not fit the number of rows"
            for name in counted:
                if name in arrays and len(arrays[name]) != places[-1]:
                    return f"{offsets}.npy does not fit {name}.npy"
        if "offsets" not in arrays:
            return "offsets.npy is missing"
        most = encoder.n_ids
        if ("ids" in arrays) != (most is not None):
            return "the encoder's nodes are of another kind"
        if most is not None and any(block.min() < 0 or block.max() >= most for block in _blocks(arrays["ids"])):
            return f"ids.npy has numbers outside 0 to {most - 1}"
        for name in ("values", "vectors", "base_logits"):
            if name in arrays and not all(np.isfinite(block).all() for block in _blocks(arrays[name])):
                return f"{name}.npy holds values that are not numbers"
        return self._fault_of_edges(arrays, encoder)

    def _fault_of_edges(self, arrays: Mapping[str, np.ndarray], encoder: Encoder) -> str:
        if "edges" not in arrays:
            return ""
        edges, starts = arrays["edges"], arrays["edge_offsets"]
        if edges.shape[1] != 3:
            return "edges.npy needs two nodes and a type for each edge"
        lengths = np.repeat(np.diff(arrays["offsets"]), np.diff(starts))
        types = max(1, encoder.edge_types)
        inside = (edges >= 0).all() and (edges[:, :2] < lengths[:, None]).all() and (edges[:, 2] < types).all()
        return "" if inside else "edges.npy names nodes or types that do not exist"

    def _try(self, folder: Path, nodes: NodeRows) -> None:
        """Numbers of another width than the encoder's show when a row is embedded."""
        rows = np.flatnonzero(nodes.lengths())[:1]
        try:
            if len(rows):
                with seeded(0), torch.no_grad():
                    self.encoder.embedding(_TRIED_WIDTH)(nodes.batch(rows))
        except (RuntimeError, ValueError, TypeError, IndexError, AssertionError) as fault:
            raise DataError(f"{folder.name}: its nodes do not fit the encoder ({str(fault)[:100]})") from None


def _blocks(array: np.ndarray) -> Iterator[np.ndarray]:
    """A mapped array in blocks of rows, so that little of it is in memory."""
    step = max(1, _BLOCK * len(array) // max(1, array.size))
    return (array[first : first + step] for first in range(0, len(array), step))


def _mapped(
    path: Path, dtype: np.dtype, shape: tuple[int, ...], maps: list[mmap.mmap], sha256: str | None
) -> np.ndarray:
    """The numbers of an .npy file, its size and, where given, its digest checked before it is mapped."""
    count = int(np.prod(shape, dtype=object))
    if dtype.hasobject or min(shape, default=0) < 0:
        raise DataError(f"{path.name} cannot hold a {dtype} array {shape}")
    size = _HEADER + count * dtype.itemsize
    with open_regular(path, size) as file:
        found = os.fstat(file.fileno()).st_size
        if found != size:
            raise DataError(f"{path.name} has {found} bytes, not those of a {dtype} array {shape}")
        if sha256 is not None:
            file.seek(_HEADER)
            if hashlib.file_digest(file, "sha256").hexdigest() != sha256:
                raise DataError(f"{path.name} is damaged: its contents do not match their digest")
        if count == 0:
            return np.zeros(shape, dtype)
        mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    mapped.madvise(mmap.MADV_RANDOM)  # rows are read in random order: reading ahead is of no use
    maps.append(mapped)
    return np.frombuffer(mapped, dtype=dtype, offset=_HEADER).reshape(shape)
