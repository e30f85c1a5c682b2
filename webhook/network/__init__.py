"""Below HTTP: sockets to listen on, TLS as a client, and proxies."""
