"""One package or file for each scheduler. `base` is the contract; `registry` finds the installed backends."""
