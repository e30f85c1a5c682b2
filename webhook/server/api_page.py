"""The page /docs: the OpenAPI document as plain HTML, without a script."""

from __future__ import annotations

import json
from collections.abc import Iterator
from html import escape
from typing import Any

from webhook.server.web_page import WebPage

_STYLE = """
:root { color-scheme: light dark; }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 0 auto; padding: 1rem; }
code, pre { font-family: ui-monospace, monospace; font-size: 0.9em; }
pre { overflow: auto; padding: 0.6rem; border: 1px solid light-dark(#c9d1d9, #3a444f); border-radius: 4px; }
table { border-collapse: collapse; margin: 0.4rem 0; }
th, td { text-align: left; vertical-align: top; padding: 0.2rem 0.8rem 0.2rem 0; }
section { border-top: 1px solid light-dark(#c9d1d9, #3a444f); }
"""


def api_page(document: dict[str, Any]) -> WebPage:
    """Return the page of an OpenAPI document."""
    title, version = escape(document["info"]["title"]), escape(document["info"]["version"])
    html = (
        f'<!doctype html>\n<html lang="en">\n<head><meta charset="utf-8"><title>{title}: API</title>'
        f'<meta name="viewport" content="width=device-width"><style>{_STYLE}</style></head>\n<body>\n'
        f"<h1>{title} {version}</h1>\n<p>{escape(document['info']['description'])}</p>\n"
        '<p>The same for programs: <a href="openapi.json">openapi.json</a>.</p>\n<main>\n'
        f"{''.join(_operations(document))}</main>\n</body>\n</html>\n"
    )
    return WebPage(html, [_STYLE])


def _operations(document: dict[str, Any]) -> Iterator[str]:
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            yield f"<section>\n<h2><code>{method.upper()} {escape(path)}</code></h2>\n"
            yield f"<p>{escape(operation['summary'])}.</p>\n"
            yield from _table("Query parameters", map(_parameter, operation.get("parameters", ())))
            yield from _body(operation.get("requestBody", {}).get("content", {}))
            said = operation["responses"].items()
            yield from _table("Answers", ((status, one["description"]) for status, one in said))
            yield "</section>\n"


def _parameter(one: dict[str, Any]) -> tuple[str, str]:
    schema = one["schema"]
    values = f" One of {', '.join(schema['enum'])}." if "enum" in schema else ""
    default = f" By default {schema['default']}." if "default" in schema else ""
    return one["name"], one["description"] + values + default


def _table(title: str, rows: Iterator[tuple[str, str]]) -> Iterator[str]:
    if lines := [
        f'<tr><th scope="row"><code>{escape(name)}</code></th><td>{escape(said)}</td></tr>' for name, said in rows
    ]:
        yield f"<h3>{title}</h3>\n<table>{''.join(lines)}</table>\n"


def _body(content: dict[str, Any]) -> Iterator[str]:
    for media_type, described in content.items():
        yield f"<h3>Body: <code>{escape(media_type)}</code></h3>\n"
        if "example" in described:
            yield f"<pre>{escape(json.dumps(described['example'], indent=2))}</pre>\n"
