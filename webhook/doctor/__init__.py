"""`rollcall doctor`: whether an installation is sound, asked of the cluster that it is in.

A tour: `parts` says what is read, `reading` and `handshakes` read it, once, with the rights of whoever asks, and
`world` is what came of that. `checking` declares checks and runs them; each of the other modules holds those about one
thing. They are pure, and one that lacks a part of the world says *not known* and never *well*.
"""
