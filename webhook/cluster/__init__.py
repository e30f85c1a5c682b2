"""Everything of a process that touches the world besides files: the Kubernetes API, sockets, clocks, logs and spans.

`access` finds the cluster and our credentials. `requests` builds requests as plain data and reads answers, and
`client` sends them. `watch` keeps the objects of one kind up to date by list and watch. `cluster_facts` combines
served kinds, schemas, watches and single reads into the live ClusterFacts of a server.

docs/explanation/decisions/001-kubernetes-client.md explains why no Kubernetes client library is used.
"""
