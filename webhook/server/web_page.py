"""The pages for a browser: each is one answer that needs no other address.

The Content-Security-Policy forbids everything that a page does not have, such as other scripts. A manifest that a page
shows can do nothing but be shown.
"""

from __future__ import annotations

import gzip
from base64 import b64encode
from collections.abc import Iterable
from functools import cache
from hashlib import sha256
from pathlib import Path

from starlette.requests import Request
from starlette.responses import Response

_FOLDER = Path(__file__).parent / "page"
# Later scripts use the functions of earlier ones.
_SCRIPTS = (
    "libraries.js",
    "text.js",
    "editor.js",
    "share.js",
    "ask.js",
    "picture.js",
    "report.js",
    "main.js",
)


class WebPage:
    """One page: its text, compressed too, and the headers that it is sent with."""

    def __init__(
        self, html: str, styles: Iterable[str] = (), scripts: Iterable[str] = (), *, asks: bool = False
    ) -> None:
        """`styles` and `scripts` are those that `html` contains. A page that `asks` may call the server it is from."""
        self._body = html.encode()
        self._compressed = gzip.compress(self._body, mtime=0)
        self._headers = {
            "Content-Security-Policy": "; ".join(_policy(styles, scripts, asks=asks)),
            "X-Content-Type-Options": "nosniff",
            "Referrer-Policy": "no-referrer",
            "Cross-Origin-Opener-Policy": "same-origin",
            "Cross-Origin-Resource-Policy": "same-origin",
            "Cache-Control": "no-cache",
            "Vary": "Accept-Encoding",
            "ETag": f'"{sha256(self._body).hexdigest()[:32]}"',
        }

    def answer(self, request: Request) -> Response:
        """Return the page, or 304 if the browser has it."""
        if request.headers.get("if-none-match") == self._headers["ETag"]:
            return Response(status_code=304, headers=self._headers)
        if "gzip" in request.headers.get("accept-encoding", ""):
            headers = self._headers | {"Content-Encoding": "gzip"}
            return Response(self._compressed, headers=headers, media_type="text/html")
        return Response(self._body, headers=self._headers, media_type="text/html")


@cache
def check_page() -> WebPage:
    """Return the page at /."""
    style = _read("page.css")
    # A module has names of its own, and is strict.
    script = "\n".join(map(_read, _SCRIPTS))
    html = _read("page.html")
    html = html.replace("<!-- style -->", f"<style>{style}</style>")
    html = html.replace("<!-- script -->", f'<script type="module">{script}</script>')
    return WebPage(html, [style], [script], asks=True)


def _read(name: str) -> str:
    return (_FOLDER / name).read_text(encoding="utf-8")


def _policy(styles: Iterable[str], scripts: Iterable[str], *, asks: bool) -> Iterable[str]:
    yield "default-src 'none'"
    for kind, texts in (("style", styles), ("script", scripts)):
        if hashes := " ".join(f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'" for text in texts):
            yield f"{kind}-src {hashes}"
    if asks:
        yield "connect-src 'self'"
        # The editor underlines with images of its own style sheet. An image runs no script.
        yield "img-src data:"
    yield from ("base-uri 'none'", "form-action 'none'", "frame-ancestors 'none'")
