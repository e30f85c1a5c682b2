"""Judge what is stored in a cluster, by today's rules and configuration, as if it were created now.

* `kinds`: the kinds that are audited, and which of their objects are listed.
* `stored`: one stored object: whether it is audited, its request, its verdict.
* `tally`: the findings, counted by rule and namespace, of which a bounded number is kept.
* `facts`: what is known of the cluster, read once.
* `auditor`: reads the kinds page by page and judges each object; the only part with I/O, beside `facts`.
* `json_form`, `sarif_form`, `open_reports`: the results in other formats.
"""
