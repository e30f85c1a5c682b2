"""`rollcall metrics`: the metrics that the two processes expose to Prometheus."""

from __future__ import annotations

import typer

from webhook.cli.options import Configuration, ReferenceFormat, ReferenceOutput, configured
from webhook.cli.output import as_json_text


def metrics(
    *,
    config: Configuration = None,
    output: ReferenceOutput = ReferenceFormat.TEXT,
) -> None:
    """List the metrics of the server and of the reconciler, with their labels and the values that these can have.

    Without a configuration every scheduler is enabled.

    **Examples**

    - `rollcall metrics`
    - `rollcall metrics --config rollcall.yaml -o json`
    - `rollcall metrics -o markdown > docs/reference/metrics.md`
    """
    # This command needs both processes; imported here, so that other commands start faster.
    from webhook.cli.metric_reference import metrics_of, reference, reference_settings

    found = metrics_of(reference_settings() if config is None else configured(config))
    if output is ReferenceFormat.MARKDOWN:
        typer.echo(reference(found), nl=False)
    elif output is ReferenceFormat.JSON:
        told = {process: [one._asdict() for one in listed] for process, listed in found.items()}
        typer.echo(as_json_text(told))
    else:
        width = max(len(one.name) for listed in found.values() for one in listed)
        for process, listed in found.items():
            typer.echo(f"{process}\n")
            for one in listed:
                typer.echo(f"  {one.name:<{width}}  {one.kind:<9}  {' '.join(one.labels)}".rstrip())
            typer.echo()
