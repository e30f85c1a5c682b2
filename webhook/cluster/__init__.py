"""Everything that talks to a Kubernetes API.

`access` finds the cluster and our credentials. `requests` builds requests as plain data, and `client` sends them.
`discovery` reads which kinds are served. `watch` keeps the objects of one kind up to date by list and watch. `lookup`
reads facts that the caches lack. `facts` combines all of these into the live ClusterFacts of a server.

docs/explanation/decisions/001-kubernetes-client.md explains why no Kubernetes client library is used.
"""
