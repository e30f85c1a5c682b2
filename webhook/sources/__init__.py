"""Read files: manifests with the position of every field, facts of a cluster, the configuration."""
