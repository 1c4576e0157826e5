"""MkDocs hook: on the site, a link to a file outside docs/ (a test, a result file) becomes the name of that file.

On the repository these links lead to the files, which the site does not have.
"""

from __future__ import annotations

import posixpath
import re
from typing import Any

LINK = re.compile(r"\[((?:[^\[\]]|\[[^\]]*\])*)\]\((\.\./[^)#\s]+)\)")


def without_outside_links(markdown: str, page: str) -> str:
    """The Markdown of a page (its path in docs/) with links that leave docs/ as plain text.

    >>> without_outside_links("[held](../../tests/t.py), [how](../faster.md)", "how-to/many.md")
    'held (`tests/t.py`), [how](../faster.md)'
    >>> without_outside_links("[held](../tests/t.py), [tests/t.py](../tests/t.py)", "reliability.md")
    'held (`tests/t.py`), tests/t.py'
    """

    def plain(match: re.Match[str]) -> str:
        text, target = match.groups()
        path = posixpath.normpath(posixpath.join("docs", posixpath.dirname(page), target))
        if path.startswith("docs/"):
            return match.group()
        return text if path in text else f"{text} (`{path}`)"

    return LINK.sub(plain, markdown)


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Called by MkDocs for every page."""
    return without_outside_links(markdown, page.file.src_uri)
