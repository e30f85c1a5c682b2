"""The tests in a real browser: one server, one chromedriver, and a Chromium for each test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
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
def driver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    """The running chromedriver."""
    assert DRIVER is not None, "chromedriver is not on PATH; on Debian: apt-get install chromium chromium-driver"
    with chromedriver(tmp_path_factory.mktemp("chromedriver")) as client:
        yield client


@pytest.fixture
def page(address: str, driver: httpx.Client) -> Iterator[Page]:
    """The page in a new browser. Afterwards no script may have failed, and nothing may have been forbidden."""
    browser = Browser(driver)
    try:
        browser.size(1400, 900)
        opened = Page(browser, address)
        opened.open()
        yield opened
        assert browser.complaints() == []
    finally:
        browser.close()
