"""A reconciler in this process, on an event loop in a separate thread, over a network that tests can disturb."""

from __future__ import annotations

import asyncio
import gc
import threading
import warnings
from collections.abc import Callable

from tests.e2e.control_plane import Manifest
from tests.e2e.network import Network
from tests.e2e.programs import eventually
from webhook.config.file import settings_from
from webhook.reconciler.manager import Reconciler

# A reconciler that takes longer to stop has failed to: a running write may take five seconds.
_STOP_SECONDS = 20.0


class HostedReconciler:
    """One reconciler. `stop` ends it as Kubernetes would, `kill` as a machine that loses its power."""

    def __init__(
        self,
        network: Network,
        config: Manifest,
        *,
        namespace: str | None = None,
        lease_namespace: str | None = None,
        before: Callable[[Reconciler], None] = lambda _: None,
    ) -> None:
        """The arguments are those of `Reconciler`; `before` is called with it before it runs."""
        self.network = network
        self.loop = asyncio.new_event_loop()
        self._task: asyncio.Task[None] | None = None
        self._thread = threading.Thread(target=self._work, daemon=True)
        settings = settings_from(config, "test")

        async def made() -> Reconciler:
            return Reconciler(
                settings, network.access, namespace=namespace, lease_namespace=lease_namespace, transport=network
            )

        self.reconciler = self.loop.run_until_complete(made())
        before(self.reconciler)
        self._thread.start()

    def _work(self) -> None:
        self._task = self.loop.create_task(self.reconciler.run())
        self.loop.run_until_complete(asyncio.wait([self._task]))
        self.loop.run_until_complete(self.network.close())
        self.loop.run_until_complete(self.loop.shutdown_asyncgens())
        self.loop.run_until_complete(self.loop.shutdown_default_executor())
        self.loop.close()

    def check(self) -> None:
        """Raise what it ended by, if it has."""
        if self._task is not None and self._task.done() and not self._task.cancelled():
            self._task.result()

    def stop(self) -> None:
        """End it, and wait until it has."""
        if self._thread.is_alive():
            eventually(lambda: self._task is not None, "it has begun")
            assert self._task is not None
            self.loop.call_soon_threadsafe(self._task.cancel)
            self._thread.join(_STOP_SECONDS)
        assert not self._thread.is_alive(), "the reconciler does not end"

    def kill(self) -> None:
        """Nothing of it reaches the API server any more."""
        self.network.die_in(0)
        with warnings.catch_warnings():
            # A connection that was being made is left open, as any would be by a process that is killed.
            warnings.simplefilter("ignore", ResourceWarning)
            self.stop()
            gc.collect()

    def metric(self, name: str, **labels: str) -> float:
        """The sum of a metric over the samples that have these labels."""
        samples = [
            sample
            for family in self.reconciler.metrics.registry.collect()
            for sample in family.samples
            if sample.name == name and labels.items() <= sample.labels.items()
        ]
        return sum(sample.value for sample in samples)

    def until_leading(self) -> None:
        """Wait until it has read the cluster, and writes."""

        def leading() -> bool:
            self.check()
            reasons = list(self.reconciler.unready())
            assert not reasons, "; ".join(reasons)
            return self.reconciler.leads()

        eventually(leading, "the reconciler leads", timeout=60)

    def until_idle(self, timeout: float = 60) -> None:
        """Wait until it has nothing to do."""

        def idle() -> bool:
            self.check()
            assert self.reconciler.idle, f"{len(self.reconciler.queue)} PodGangs wait"
            return True

        eventually(idle, "the reconciler is idle", timeout=timeout)
