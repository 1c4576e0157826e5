"""The OpenAPI page at /docs: paths and the fields of their requests, as one file that loads nothing from elsewhere."""

from __future__ import annotations

import base64
import hashlib
from html import escape
from typing import Any

_STYLE = (
    ":root{color-scheme:light dark}"
    "body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:1rem auto;padding:0 1rem}"
    "h2{font:600 1.05rem ui-monospace,monospace;margin:2rem 0 .25rem;overflow-wrap:anywhere}p{margin:.25rem 0}"
    "div{overflow-x:auto}table{border-collapse:collapse}"
    "td,th{text-align:left;vertical-align:top;padding:.25rem 1rem .25rem 0;border-bottom:1px solid #8886}"
)
HEADERS = {
    "content-security-policy": "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    f"style-src 'sha256-{base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()}'",
    "x-content-type-options": "nosniff",
}


def api_page(described: dict[str, Any]) -> str:
    """The page of an OpenAPI description.

    >>> described = {"info": {"title": "a", "version": "1"}, "paths": {"/health": {"get": {"summary": "Lives?"}}}}
    >>> "<h2>GET /health</h2><p>Lives?</p>" in api_page(described)
    True
    """
    parts = []
    for path, methods in described["paths"].items():
        for method, operation in methods.items():
            sentence = operation.get("description") or operation.get("summary", "")
            parts.append(f"<h2>{escape(f'{method.upper()} {path}')}</h2><p>{escape(sentence)}</p>")
            body = operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema", {})
            parts.append(_fields(body))
    title = escape(f"{described['info']['title']} {described['info']['version']}")
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{title}: requests</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<style>{_STYLE}</style></head><body><h1>{title}</h1>"
        '<p>For programs: <a href="openapi.json">openapi.json</a>. For people: <a href="./">the tagging page</a>.</p>'
        f"{''.join(parts)}</body></html>"
    )


def _fields(schema: dict[str, Any]) -> str:
    lines = [
        f"<tr><td><code>{escape(name)}</code></td><td>{escape(_type(field))}</td>"
        f"<td>{escape(field.get('description', ''))}</td>"
        f"<td>{'required' if name in schema.get('required', ()) else escape(repr(field.get('default')))}</td></tr>"
        for name, field in schema.get("properties", {}).items()
    ]
    head = "<tr><th>field</th><th>type</th><th></th><th>by default</th></tr>"
    return f"<div><table>{head}{''.join(lines)}</table></div>" if lines else ""


def _type(schema: dict[str, Any]) -> str:
    """The type of a field in words.

    >>> _type({"anyOf": [{"type": "array", "items": {"type": "string"}}, {"type": "null"}]})
    'array of string or null'
    """
    if "anyOf" in schema:
        return " or ".join(map(_type, schema["anyOf"]))
    if schema.get("type") == "array" and (inner := _type(schema.get("items", {}))):
        return f"array of {inner}" if " or " not in inner else f"array of ({inner})"
    return str(schema.get("type", ""))
