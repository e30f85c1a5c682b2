"""What processes of `rollcall` import and compute once: imported by the process that `forked_process` forks."""

from __future__ import annotations

import gc

# The client of Kubernetes imports each of its models when it is first needed.
import kubernetes.client
import kubernetes.config

import webhook.certificates.files
import webhook.cli.commands
import webhook.cluster.access
import webhook.reconciler.manager
import webhook.reconciler.process
import webhook.server.serving
from webhook.cli.commands import COMMANDS, Commands
from webhook.config.defaults import default_settings

__all__ = ["kubernetes", "webhook"]

# Each command is imported when it is looked up.
dict(Commands(COMMANDS))
default_settings()
# A collection after a fork would copy the memory of everything that is only shared.
gc.collect()
gc.freeze()
