"""Whether rows that a command is given are those that a model was trained on."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from lampnet.errors import LampnetError

if TYPE_CHECKING:
    from lampnet.readers.sources import Source


def part_of_training(known: Any, source: Source) -> str | None:
    """Which part of the training's data this file is; None for another file, or none."""
    from lampnet.readers.any_format import find_parts

    trained_on = known.get("data") if isinstance(known, dict) else None
    if not isinstance(trained_on, str) or source.named or not Path(source.data).is_file():
        return None
    rows = Path(source.data).resolve()
    if str(rows) == trained_on:
        return "train"
    if str(rows.parent) != trained_on:
        return None
    try:
        return next((part for part, file in find_parts(rows.parent).items() if file.samefile(rows)), None)
    except LampnetError:  # a folder without a training part
        return None
