"""The page for tagging rows by hand."""

from __future__ import annotations

import base64
import hashlib
from importlib.resources import files


def tagging_page() -> tuple[str, dict[str, str]]:
    """The page as one file, and headers that let it run its own script and style only and reach this service only."""
    folder = files("lampnet.service") / "page"
    text = (folder / "tagging.html").read_text(encoding="utf-8")
    allowed = {}
    for place, name in (("style", "tagging.css"), ("script", "tagging.js")):
        part = (folder / name).read_text(encoding="utf-8")
        text = text.replace(f"/*{place}*/", part)
        allowed[place] = base64.b64encode(hashlib.sha256(part.encode()).digest()).decode()
    policy = (
        f"default-src 'none'; style-src 'sha256-{allowed['style']}'; script-src 'sha256-{allowed['script']}'; "
        "connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
    return text, {
        "content-security-policy": policy,
        "x-content-type-options": "nosniff",
        "referrer-policy": "no-referrer",
        "cache-control": "no-cache",
    }
