"""What a cluster is given so that Rollcall runs in it: pure, manifests made of settings. `names` has each name once."""
