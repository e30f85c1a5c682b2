"""Reading files: manifests with the place of every field, a cluster's facts, the configuration."""
