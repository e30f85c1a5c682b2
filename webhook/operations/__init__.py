"""What an operator asks of a living cluster: doctor (does the installation work), audit (what of the stored objects
would be refused now) and upgrades (what a new release means for living gangs).

Doctor: `snapshot` lists what is read, `snapshot_reader` reads it once with the rights of the user, `diagnosis`
declares and runs checks, each `*_checks` module has the checks of one subject, and `checks` has their order. Checks do
no I/O. A check that lacks a part of the snapshot reports *not known*, never *well*.

Audit: `audit` judges and counts, `auditor` reads page by page, `audit_forms` prints.

Upgrades: `release_notes` has the knowledge, one entry for each fact; `upgrade_plan` judges; `releases` says what a
release and a present gang are.
"""
