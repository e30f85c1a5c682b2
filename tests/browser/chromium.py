"""A headless Chromium, driven over the HTTP protocol of chromedriver (W3C WebDriver)."""

from __future__ import annotations

import shutil
import subprocess
from base64 import b64decode
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import httpx

from tests.e2e.programs import eventually, free_port

T = TypeVar("T")

DRIVER = shutil.which("chromedriver")
# How WebDriver names elements and shadow roots in JSON.
_ELEMENT = "element-6066-11e4-a52e-4f735466cecf"
_SHADOW = "shadow-6066-11e4-a52e-4f735466cecf"
ENTER, TAB, CONTROL, END = "\ue007", "\ue004", "\ue009", "\ue010"
# A page of 400 pods on a loaded machine.
_SECONDS = 30


class Browser:
    """One tab of a browser."""

    def __init__(self, driver: httpx.Client) -> None:
        arguments = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
        capabilities = {
            "browserName": "chrome",
            "acceptInsecureCerts": True,
            "goog:chromeOptions": {"args": arguments},
            "goog:loggingPrefs": {"browser": "ALL"},
        }
        answer = driver.post("/session", json={"capabilities": {"alwaysMatch": capabilities}})
        assert answer.status_code == 200, answer.text
        self._driver = driver
        self._session = f"/session/{answer.json()['value']['sessionId']}"

    def close(self) -> None:
        """End the browser."""
        self._driver.delete(self._session)

    def _ask(self, method: str, path: str, body: Any = None) -> Any:
        answer = self._driver.request(method, self._session + path, json=body)
        value = answer.json()["value"]
        assert answer.status_code == 200, f"{method} {path}: {value['error']}: {value['message']}"
        return value

    def open(self, address: str) -> None:
        """Open an address, as a page of its own: only another fragment would not load it again."""
        self._ask("POST", "/url", {"url": "about:blank"})
        self._ask("POST", "/url", {"url": address})

    def size(self, width: int, height: int) -> None:
        """Give the page this size."""
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.command("Emulation.setDeviceMetricsOverride", metrics)

    def prefer(self, scheme: str) -> None:
        """Say that the person prefers a light or a dark scheme."""
        self.command("Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": scheme}]})

    def command(self, name: str, parameters: dict[str, Any]) -> Any:
        """Call a command of Chromium's own protocol."""
        return self._ask("POST", "/goog/cdp/execute", {"cmd": name, "params": parameters})

    def run(self, script: str, *arguments: Any) -> Any:
        """What the body of a function in the page returns."""
        return self._ask("POST", "/execute/sync", {"script": script, "args": list(arguments)})

    def until(self, condition: Callable[[], T | None], what: str) -> T:
        """Wait for a condition."""
        return eventually(condition, what, timeout=_SECONDS)

    def element(self, selector: str) -> dict[str, str]:
        """The first element of a CSS selector. Within `#editor >>> `: in the shadow root of the editor."""
        host, _, inner = selector.rpartition(" >>> ")
        if not host:
            return self._found("/element", selector)
        shadow = self._ask("GET", f"/element/{self.element(host)[_ELEMENT]}/shadow")
        return self._found(f"/shadow/{shadow[_SHADOW]}/element", inner)

    def _found(self, path: str, selector: str) -> dict[str, str]:
        found: dict[str, str] = self._ask("POST", path, {"using": "css selector", "value": selector})
        return found

    def click(self, element: dict[str, str]) -> None:
        """Click in the middle of an element."""
        self._ask("POST", f"/element/{element[_ELEMENT]}/click", {})

    def type(self, element: dict[str, str], text: str) -> None:
        """Type into an element."""
        self._ask("POST", f"/element/{element[_ELEMENT]}/value", {"text": text})

    def press(self, *keys: str) -> None:
        """Press keys one after the other, while those before are held, and release all, wherever the focus is."""
        actions = [{"type": "keyDown", "value": key} for key in keys]
        actions += [{"type": "keyUp", "value": key} for key in reversed(keys)]
        self._ask("POST", "/actions", {"actions": [{"type": "key", "id": "keys", "actions": actions}]})

    def label(self, element: dict[str, str]) -> str:
        """What a screen reader says of an element: its role and name."""
        path = f"/element/{element[_ELEMENT]}"
        return f"{self._ask('GET', path + '/computedrole')}: {self._ask('GET', path + '/computedlabel')}"

    def focused(self) -> dict[str, str]:
        """The element that has the focus, also inside a shadow root."""
        found: dict[str, str] = self.run(
            "let e = document.activeElement;"
            "while (e.shadowRoot?.activeElement) e = e.shadowRoot.activeElement;"
            "return e;"
        )
        return found

    def complaints(self) -> list[str]:
        """Errors of scripts and violations of the policy since the last call, without answers of the server."""
        entries = self._ask("POST", "/se/log", {"type": "browser"})
        return [
            one["message"] for one in entries if one["level"] == "SEVERE" and "with a status of 4" not in one["message"]
        ]

    def picture(self, path: Path) -> None:
        """Write what is seen of the page as PNG."""
        path.write_bytes(b64decode(self._ask("GET", "/screenshot")))


@contextmanager
def chromedriver(folder: Path) -> Iterator[httpx.Client]:
    """A running chromedriver, as a client of it. It ends the browsers that it has started."""
    assert DRIVER is not None
    port = free_port()
    with (
        (folder / "chromedriver.log").open("wb") as log,
        subprocess.Popen([DRIVER, f"--port={port}"], stdout=log, stderr=log) as process,
        httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60, trust_env=False) as client,
    ):

        def ready() -> bool:
            try:
                return bool(client.get("/status").json()["value"]["ready"])
            except httpx.TransportError:
                return False

        try:
            eventually(ready, "chromedriver answers")
            yield client
        finally:
            process.terminate()
