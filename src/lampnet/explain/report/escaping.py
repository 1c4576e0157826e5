"""How data gets into a page without any of it becoming markup.

Data goes in as JSON inside `<script type="application/json">`; the signs that could end the element or
mislead a parser are written as JSON escapes. The page's own script builds everything with textContent.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
from importlib.resources import files
from typing import Any

import numpy as np

_ESCAPES = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}


def script_json(data: Any) -> str:
    """JSON that is safe inside a script element.

    >>> script_json({"label": "</script>"})
    '{"label":"\\\\u003c/script\\\\u003e"}'
    """
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    # A lone surrogate cannot be written as UTF-8; it becomes the sign for what cannot be shown.
    text = text.encode("utf-8", "replace").decode("utf-8")
    return re.sub("[<>&\u2028\u2029]", lambda found: _ESCAPES[found.group()], text)


def packed(values: np.ndarray) -> str:
    """Numbers from 0 to 1 as 16-bit whole numbers (little-endian) in base64: a third of their JSON.

    >>> packed(np.array([0.0, 1.0]))
    'AAD//w=='
    """
    whole = np.round(np.clip(values, 0.0, 1.0) * 65535).astype("<u2")
    return base64.b64encode(whole.tobytes()).decode("ascii")


def fill(template: str, title: str, data: Any, scripts: tuple[str, ...]) -> str:
    """A whole page: the template with its style, data and scripts inside, closed to the network.

    The Content-Security-Policy names the hashes of exactly these scripts and styles, so nothing else runs
    even if a text slipped through, and no address can be fetched.
    """
    style = _part("report.css")
    code = "\n".join(_part(name) for name in scripts)
    allowed = f"img-src data:; style-src '{_hash(style)}'; script-src '{_hash(code)}'"
    policy = f"default-src 'none'; {allowed}; base-uri 'none'; form-action 'none'"
    parts = {"TITLE": html.escape(title), "POLICY": policy, "STYLE": style, "DATA": script_json(data), "SCRIPT": code}
    # One pass, so that a value that looks like a marker is not filled again.
    return re.sub("@@([A-Z]+)@@", lambda marker: parts[marker[1]], _part(template))


def _part(name: str) -> str:
    return (files("lampnet.explain.report") / "templates" / name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode("utf-8")).digest()).decode("ascii")
