"""Files in, reports out: manifests are read, judged, explained, fixed, drawn and reported without a cluster."""
