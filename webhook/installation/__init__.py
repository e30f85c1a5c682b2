"""The manifests of an installation, made from settings (no I/O). `names` defines each name once."""
