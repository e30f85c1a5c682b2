"""`rollcall doctor`: checks whether an installation in a cluster works.

`parts` lists what is read. `reading` and `handshakes` read it once, with the rights of the user. `snapshot` is the
resulting snapshot. `checking` declares and runs checks; each of the other modules holds the checks of one subject.
Checks do no I/O. A check that lacks a part of the snapshot reports *not known*, never *well*.
"""
