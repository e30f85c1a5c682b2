"""One folder per scheduler. `base` is the contract; `registry` finds the installed backends.

Each folder has the same files: `settings` (its part of the configuration), `capabilities` (what the scheduler honours),
`rules` (checks that the capability table cannot express), `pods` (PreparePod), `gangs` (PodGang to gang objects).
"""
