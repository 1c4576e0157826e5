"""Docstrings as they are written in this project, as Markdown for the API reference.

Examples (`>>>`) without a heading become blocks of code, and lines of a name, two spaces and what it is become a list.
"""

from __future__ import annotations

import re

_FIELD = re.compile(r"^(\w[\w, ]*?)(?:  +| : )(\S.*)$")
_SECTION = re.compile(r"^(Parameters|Attributes|Examples|Returns|Notes)$")


def as_markdown(docstring: str) -> str:
    """The docstring with fences around examples and bullets before fields; numpydoc sections stay as they are.

    >>> as_markdown("Rows.\\n\\nids    their names\\nrows   one each,\\n       or more").splitlines()[2:]
    ['- `ids`: their names', '- `rows`: one each,', '  or more']
    >>> as_markdown("Two.\\n\\n>>> 1 + 1\\n2").splitlines()[2:]
    ['```python', '>>> 1 + 1', '2', '```']
    """
    made: list[str] = []
    for paragraph in re.split(r"\n\s*\n", docstring.strip()):
        lines = paragraph.split("\n")
        if _SECTION.match(lines[0]):
            return "\n\n".join([*made, docstring[docstring.index(paragraph) :]])
        if lines[0].startswith(">>>"):
            made.append("\n".join(["```python", *lines, "```"]))
        elif _FIELD.match(lines[0]):
            made.append(
                "\n".join(
                    _FIELD.sub(r"- `\1`: \2", line) if _FIELD.match(line) else f"  {line.strip()}" for line in lines
                )
            )
        else:
            made.append(paragraph)
    return "\n\n".join(made)
