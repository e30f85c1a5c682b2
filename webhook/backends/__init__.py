"""One folder a scheduler. `base` is the contract, `registry` finds the backends that are installed.

Each folder has the same rooms: `settings` (its part of the configuration), `capabilities` (what the scheduler honours),
`rules` (what the table cannot say), `pods` (PreparePod), `gangs` (PodGang to gang objects).
"""
