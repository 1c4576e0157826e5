"""Image files: only the formats that are promised are opened, whatever a file's content says it is.

Pillow chooses a decoder by content, and some are not for untrusted files: PostScript starts another program.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from lampnet.errors import DataError, LampnetError, MissingExtra
from lampnet.runtime.memory_limit import MemoryBudget

#: As Pillow names them.
FORMATS = ("PNG", "JPEG", "GIF", "BMP", "WEBP", "TIFF")
#: What Pillow's decoders raise on damaged files.
_DAMAGE = (
    OSError,
    ValueError,
    SyntaxError,
    LookupError,
    TypeError,
    ArithmeticError,
    EOFError,
    struct.error,
    zlib.error,
    MemoryError,  # a part that states a length of gigabytes
)
#: Bytes per pixel while an image is decoded and converted.
_PER_PIXEL = 8


def pillow() -> Any:
    """Pillow's module `Image`."""
    try:
        from PIL import Image
    except ImportError:
        raise MissingExtra("pillow", "images", "reading or resizing images") from None
    return Image


@contextmanager
def opened_image(path: str | Path | IO[bytes], row: int | None = None, name: str = "") -> Iterator[Any]:
    """An image file or its bytes, opened by Pillow; what it says of damage becomes a sentence that says where."""
    where = name or (f"{path}" if row is None else f"row {row}: {path}")
    try:
        with pillow().open(path, formats=FORMATS) as image:
            yield image
    except LampnetError:
        raise
    except (*_DAMAGE, pillow().DecompressionBombError) as problem:
        said = " ".join(str(problem).split())[:200] or "it asks for more memory than there is"
        raise DataError(f"{where} cannot be read as an image ({said}); give a PNG or JPEG file") from None


def decoded(image: Any, path: str | Path, mode: str) -> Any:
    """The pixels of an opened image in this mode, if the memory suffices."""
    MemoryBudget(path).check(_PER_PIXEL * image.width * image.height)
    return image.convert(mode)
