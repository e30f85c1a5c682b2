"""Judge what is stored in a cluster, by today's rules and configuration, as if it were created now.

* `kinds`: the kinds that are audited, and which of their objects are listed.
* `stored`: one stored object: whether it is audited, its request, its verdict.
* `tally`: the findings, counted by rule and namespace, of which a bounded number is kept.
* `results`: what an audit found.
* `facts`: what is known of the cluster, read once.
* `auditor`: reads the kinds page by page and judges each object; `clients` goes on after failures.
* `apart`: runs an audit beside other work.
* `json_form`, `sarif_form`, `open_reports`: the results in other formats.
"""
