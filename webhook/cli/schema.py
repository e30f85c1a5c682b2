"""`rollcall schema`: the JSON Schemas of what Rollcall prints."""

from __future__ import annotations

import typer

from webhook.cli.output import as_json_text

schema_app = typer.Typer(no_args_is_help=True, help="Print the JSON Schemas of what Rollcall prints.")


@schema_app.command()
def report() -> None:
    """Print the JSON Schema of the report of `rollcall check -o json` and `POST /check`.

    **Examples**

    - `rollcall schema report > report.schema.json`
    """
    from webhook.reports.schema import report_schema

    typer.echo(as_json_text(report_schema()))


@schema_app.command()
def fit() -> None:
    """Print the JSON Schema of what `rollcall fit -o json` prints.

    **Examples**

    - `rollcall schema fit > fit.schema.json`
    """
    from webhook.reports.fit_schema import fit_schema

    typer.echo(as_json_text(fit_schema()))


@schema_app.callback()
def schema() -> None:
    """Print the JSON Schemas of what Rollcall prints."""
