"""The tests in a real browser: one server and one Chromium, in which each test loads the page again."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.browser.chromium import DRIVER, Browser, chromedriver
from tests.browser.page import Page
from tests.unit.server.server_process import serving_process
from webhook.certificates.files import CERTIFICATE_FILE, KEY_FILE, make_development_certificates
from webhook.server.tls import PairFiles

MANIFESTS = Path(__file__).parents[2] / "manifests"


@pytest.fixture(scope="session")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a server as `scripts/run` starts it."""
    folder = tmp_path_factory.mktemp("server")
    make_development_certificates(folder)
    files = PairFiles(folder / CERTIFICATE_FILE, folder / KEY_FILE)
    configured = ("--config", MANIFESTS / "configuration.yaml", "--facts", MANIFESTS / "facts")
    with serving_process(folder, files, *configured, traced=False) as serving:
        yield f"https://localhost:{serving.port}"


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """The running Chromium."""
    assert DRIVER is not None, "chromedriver is not on PATH; on Debian: apt-get install chromium chromium-driver"
    with chromedriver(tmp_path_factory.mktemp("chromedriver")) as client:
        running = Browser(client)
        yield running
        running.close()


@pytest.fixture
def page(address: str, browser: Browser) -> Iterator[Page]:
    """The page, freshly loaded. Afterwards no script may have failed, and nothing may have been forbidden."""
    browser.size(1400, 900)
    browser.prefer("light")
    opened = Page(browser, address)
    opened.open()
    browser.complaints()
    yield opened
    assert browser.complaints() == []
