"""The files of the chart."""

from __future__ import annotations

import json
from collections.abc import Mapping

from webhook.installation.chart.features import features
from webhook.installation.chart.monitoring import monitoring
from webhook.installation.chart.templates import templates
from webhook.installation.chart.values import VALUES, values_schema, values_table, values_text
from webhook.installation.kustomize import GENERATED, Dump
from webhook.model.reading import Manifest

# From this version on, matchLabelKeys of a topology spread, which separates the Pods of a rollout, is enabled. Rollcall
# is tested from 1.35 on.
_KUBERNETES = ">=1.27.0-0"
_DESCRIPTION = "Gang-scheduling admission for Kubernetes: every pod present, or nobody starts."
_README = """\
# The chart rollcall

{description} Made by `rollcall manifests write` from the same source as the kustomizations and
`rollcall manifests all`: a test holds them to the same objects. How to install, upgrade and uninstall:
docs/how-to/installing.md.

```
helm install rollcall manifests/chart --namespace rollcall-system --create-namespace \\
  --set image.repository=registry.example.com/rollcall
```

All objects have fixed names, so a cluster has one Rollcall. Which rights it has and what it is asked about follows from
`configuration`; a third party's backend is known to a chart that `rollcall manifests write` made where it is installed.

{table}
"""


def chart(
    configuration: Manifest, schema: Manifest, watching: Mapping[str, str], version: str, dump: Dump
) -> Mapping[str, str]:
    """The text of each file by its path.

    `configuration` is the default of the value with that name, `schema` its JSON schema; `watching` are the files for
    monitoring.
    """
    head = {
        "apiVersion": "v2",
        "name": "rollcall",
        "description": _DESCRIPTION,
        "type": "application",
        "version": version,
        "appVersion": version,
        "kubeVersion": _KUBERNETES,
    }
    written = {value.path: json.dumps(value.default) for value in VALUES}
    table = "\n".join(values_table(written))
    return {
        "Chart.yaml": GENERATED + dump(head),
        "README.md": _README.format(description=_DESCRIPTION, table=table),
        "values.yaml": values_text(configuration, dump),
        "values.schema.json": json.dumps(values_schema(schema), indent=2) + "\n",
        **{f"templates/{name}": text for name, text in templates(features(), dump).items()},
        **{f"templates/monitoring/{name}": text for name, text in monitoring(watching).items()},
    }
