"""The self-probe: check that our own TLS port answers, with the certificate that it should serve.

A server that listens may still have an unusable certificate, or a port that another process has. Only a client can see
that. After a success, several tries in a row must fail before the server is unready: a busy machine, or a busy probe,
must not take a server out of service.
"""

from __future__ import annotations

import asyncio
import ssl

from webhook.network.client_tls import looking
from webhook.server.state import ServerState
from webhook.telemetry.logs import log

# A try costs a handshake, a millisecond or two.
EVERY_SECONDS = 10.0
# Until the probe succeeds, the replica gets no traffic.
UNSEEN_SECONDS = 0.5
# A handshake takes milliseconds; on a busy machine, a second or two.
TRY_SECONDS = 5.0
# Half a minute without an answer is not an accident.
TRIES = 3

NOT_YET = "own port: has not answered yet"


class SelfProbe:
    """Probes the port at `address` and sets `state.unseen`."""

    def __init__(self, state: ServerState, address: tuple[str, int], *, client_ca: bool) -> None:
        """With `client_ca` the port requires a client certificate, which the probe lacks: then only the handshake is
        checked.
        """
        self._state = state
        self._host, self._port = address
        self._handshake_alone = client_ca
        self._failed = 0
        self._told: str | None = None
        state.unseen = NOT_YET
        # The served certificate is compared with the loaded one. Whether other clients trust it is not checked here.
        self._context = looking()
        # With TLS 1.3 the client sees the server's certificate and completes the handshake before its own certificate
        # is missed.
        self._context.minimum_version = ssl.TLSVersion.TLSv1_3

    async def run(self) -> None:
        """Probe the port again and again."""
        while True:
            await asyncio.sleep(EVERY_SECONDS if self._state.unseen is None else UNSEEN_SECONDS)
            await self.look()

    async def look(self) -> None:
        """Try once, if a certificate is loaded and, where clients need certificates, a client CA."""
        if self._state.certificate is None or self._state.unguarded:
            self._state.unseen = NOT_YET
            return
        why = await self._try()
        if why is None:
            self._failed = 0
            self._told = self._state.unseen = None
            return
        self._failed += 1
        # The same reason is not logged twice a second. It is logged once more when the port counts as failed.
        if why != self._told or self._failed == TRIES:
            log.warning("own port", why=why, tries=self._failed)
        self._told = why
        if self._state.unseen is not None or self._failed >= TRIES:
            self._state.unseen = f"own port: {why}"

    async def _try(self) -> str | None:
        """Return what is wrong with the port, or None."""
        before = self._state.certificate
        try:
            async with asyncio.timeout(TRY_SECONDS):
                shown, status = await self._ask()
        except TimeoutError:
            return f"no answer within {TRY_SECONDS:g} s"
        except OSError as error:
            return f"no answer: {str(error) or type(error).__name__}"
        # The certificate may have been reloaded during the probe.
        if shown not in {pair.leaf for pair in (before, self._state.certificate) if pair is not None}:
            return "the port presents a certificate other than the loaded one"
        if not status.startswith(b"HTTP/1.1 200 ") and not self._handshake_alone:
            return f"the answer is {status[:40]!r}"
        return None

    async def _ask(self) -> tuple[bytes | None, bytes]:
        """Return the served certificate and the first line of the answer."""
        reader, writer = await asyncio.open_connection(
            self._host, self._port, ssl=self._context, server_hostname="localhost"
        )
        try:
            shown = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
            if self._handshake_alone:
                return shown, b""
            writer.write(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")
            return shown, await reader.readline()
        finally:
            writer.transport.abort()
