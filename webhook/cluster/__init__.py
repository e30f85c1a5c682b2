"""Everything that talks to a Kubernetes API.

A tour: `access` finds the cluster and who we are there, `requests` says what is asked as plain data, `client` sends it,
`discovery` reads which kinds are served, `watch` keeps the objects of one kind in step by list and watch, `lookup`
reads what a cache lacks, and `facts` makes of all that the live ClusterFacts of a server.

docs/decisions/001-kubernetes-client.md says why there is no Kubernetes client library below it.
"""
