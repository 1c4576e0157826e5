"""Griffe extension of `make docs`: docstrings become Markdown before the API reference reads them."""

from __future__ import annotations

from typing import Any

import griffe

from pages.docstring_markdown import as_markdown


class Docstrings(griffe.Extension):
    """Changes the docstrings of everything that the reference shows."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        if obj.docstring is not None:
            obj.docstring.value = as_markdown(obj.docstring.value)
