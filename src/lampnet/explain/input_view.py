"""What a person sees of one row: its nodes by name and place, and the input itself as plain data.

`EncodedRows.node_places` states what places mean for each kind of input.
"""

from __future__ import annotations

import base64
import io
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from lampnet.data.dataset import Dataset
from lampnet.data.dna_bases import BASES
from lampnet.data.parts import PartRows
from lampnet.encoders.base import EncodedRows
from lampnet.encoders.image_files import decoded, opened_image, pillow
from lampnet.encoders.nodes import NodeRows

#: Pictures are shown no larger than this, so that a page with fifty of them stays small.
PICTURE_SIDE = 256


@dataclass(frozen=True, kw_only=True)
class Node:
    """One input node: its number in the row, its name, where it lies, and its value where it has one."""

    number: int
    name: str
    places: tuple[tuple[int, ...], ...] = ()
    value: float | None = None

    def to_json(self) -> dict[str, Any]:
        """Plain data.

        >>> Node(number=0, name="red", places=((0, 3),)).to_json()
        {'number': 0, 'name': 'red', 'places': [[0, 3]], 'value': None}
        """
        places = [list(place) for place in self.places]
        return {"number": self.number, "name": self.name, "places": places, "value": self.value}


def describe_input(encoded: EncodedRows, data: Dataset, row: int) -> tuple[list[Node], dict[str, Any]]:
    """All nodes of one row, and the row itself as JSON data; `encoded` are the rows of `data`."""
    if isinstance(data.rows, PartRows):
        return _describe_parts(encoded, data.rows, row)
    kind, rows = data.kind, data.rows
    names, places = encoded.node_names(row), encoded.node_places(row)
    values: list[float | None] = [None for _ in names]
    shown: dict[str, Any] = {}
    if kind == "text":
        shown = {"text": rows[row]}
    elif kind == "image":
        shown = picture_data(rows[row])
    elif kind == "dna":
        shown = {"sequence": "".join(BASES[code] for code in np.asarray(rows[row]))}
    elif kind == "molecule":
        shown = {"smiles": str(rows[row])}
    elif kind in ("wordset", "columns"):
        values = _values(encoded.nodes, row, len(names))
    nodes = [
        Node(number=i, name=name, places=place, value=value)
        for i, (name, place, value) in enumerate(zip(names, places, values, strict=True))
    ]
    return nodes, {"kind": kind, **shown}


def _describe_parts(encoded: EncodedRows, rows: PartRows, row: int) -> tuple[list[Node], dict[str, Any]]:
    """The nodes of all parts, named by their part, and each part as it is described alone."""
    described, values = [], []
    for part, own in encoded.parsed:
        place = part.place(row)
        if place < 0:
            continue
        alone = Dataset(name="", kind=part.kind, rows=part.rows, labels=None, label_names=())
        nodes, shown = describe_input(own, alone, place)
        described.append({"name": part.name, "nodes": len(nodes), **shown})
        values += [node.value for node in nodes]
    names, places = encoded.node_names(row), encoded.node_places(row)
    whole = zip(names, places, values, strict=True)
    found = [Node(number=i, name=name, places=at, value=value) for i, (name, at, value) in enumerate(whole)]
    return found, {"kind": "parts", "parts": described}


def _values(nodes: NodeRows, row: int, n: int) -> list[float | None]:
    """Each node's value: the tf-idf of a word, the distance of a column from its mean in standard deviations."""
    values = None if nodes.values is None else nodes.values[nodes.offsets[row] : nodes.offsets[row + 1]]
    if values is None or len(values) != n:
        return [None] * n
    return [round(float(value), 4) for value in values]


def picture_data(item: Any) -> dict[str, Any]:
    """A JPEG (a PNG for small and grey pictures) as a data URL, with the size of the original in pixels."""
    if isinstance(item, (str, Path)):
        with opened_image(item) as opened:
            image = decoded(opened, item, "RGB")
    else:
        pixels = np.asarray(item)
        image = pillow().fromarray(pixels[:, :, 0] if pixels.ndim == 3 and pixels.shape[2] == 1 else pixels)
    width, height = image.size
    image.thumbnail((PICTURE_SIDE, PICTURE_SIDE))
    written = io.BytesIO()
    form = "jpeg" if image.mode == "RGB" and max(image.size) > 64 else "png"
    image.save(written, format=form, quality=85, optimize=form == "png")
    address = f"data:image/{form};base64," + base64.b64encode(written.getvalue()).decode("ascii")
    return {"picture": address, "width": width, "height": height}
