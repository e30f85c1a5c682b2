"""Clients for long lists. They go on after a failure. One requests the next page in advance, and one pauses for
other work.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

from webhook.cluster.backoff import doubled
from webhook.cluster.client import Client, Page
from webhook.errors import Gone, RequestFailed

# The first and the longest pause before a list goes on after a failure, and how often it does so.
RETRY_SECONDS = (0.5, 8.0)
TRIES = 6
# The largest share of the time in which an audit computes beside other work.
SHARE = 0.25
_TOO_MANY, _SERVER_ERROR = 429, 500


class PatientClient(Client):
    """A client whose lists go on after an answer that another try may change: no answer, 429, 5xx, and 410 if the
    version of the list has expired.
    """

    async def pages(self, *arguments: Any, **options: Any) -> AsyncGenerator[Page, None]:
        """Yield pages as `Client.pages` does. Raises `RequestFailed` after `TRIES` failures of one list."""
        async with aclosing(super().pages(*arguments, again=Retries().again, **options)) as pages:
            async for page in pages:
                yield page
                del page


class PrefetchingClient(PatientClient):
    """A patient client that requests the next page while its caller works on one: two pages are in memory."""

    async def pages(self, *arguments: Any, **options: Any) -> AsyncGenerator[Page, None]:
        """Yield pages as `PatientClient.pages` does. The caller lets the event loop run while it works on a page."""
        async with aclosing(super().pages(*arguments, **options)) as pages:
            ahead = asyncio.ensure_future(anext(pages, None))
            try:
                while (page := await ahead) is not None:
                    ahead = asyncio.ensure_future(anext(pages, None))
                    yield page
                    del page
            finally:
                if ahead.done() and not ahead.cancelled():
                    # Its failure is of no interest to a caller that has left.
                    ahead.exception()
                elif ahead.cancel():
                    # The pages are closed only after their last request has ended.
                    await asyncio.wait([ahead])


class PacedClient(PatientClient):
    """A patient client that pauses after each page, so that its thread computes for at most `SHARE` of the time."""

    async def pages(self, *arguments: Any, **options: Any) -> AsyncGenerator[Page, None]:
        """Yield pages as `PatientClient.pages` does."""
        begun = self._clock.processor()
        async with aclosing(super().pages(*arguments, **options)) as pages:
            async for page in pages:
                yield page
                del page
                # Also what the caller did with the page.
                await asyncio.sleep((self._clock.processor() - begun) * (1 / SHARE - 1))
                begun = self._clock.processor()


class Retries:
    """Whether one list goes on after a page that failed: a bounded number of times."""

    def __init__(self) -> None:
        self._failures = 0

    async def again(self, error: RequestFailed) -> bool:
        """Wait and return True if the page may be requested once more."""
        if isinstance(error, Gone):
            # The list took longer than the API server keeps its version (about five minutes).
            return error.token is not None
        if error.code and error.code != _TOO_MANY and error.code < _SERVER_ERROR:
            return False
        self._failures += 1
        if self._failures > TRIES:
            return False
        await asyncio.sleep(max(doubled(RETRY_SECONDS, self._failures), error.wait or 0.0))
        return True
