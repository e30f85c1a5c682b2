"""The gangs that gang objects say they are for, found by the members in them.

A cluster may have an object for each member of each gang. Most of them have the name of their only member, and the
objects of a gang say the same of it. So such an object takes one entry here, and no index is needed to find it.
"""

from __future__ import annotations

from collections.abc import Iterator

from webhook.model.bounds import latest_equal
from webhook.model.keys import Api, ObjectKey
from webhook.model.living_gang import GangObjects, LivingGang

# The objects of a gang share what is kept of it.
_latest = latest_equal(1024)


class MemberGangs:
    """The gangs of the objects of one kind, by their members."""

    def __init__(self, api: Api) -> None:
        self._api = api
        # The gangs of objects that have the name of their only member, without that member.
        self._by_name: dict[ObjectKey, LivingGang] = {}
        # Those of all other objects.
        self._others = GangObjects()

    def put(self, key: ObjectKey, gang: LivingGang | None) -> None:
        """Note what an object says now; None if it is for no gang or does not exist."""
        if gang is not None and gang.members == (key[1],):
            self._by_name[key] = _latest(gang._replace(members=()))
            gang = None
        else:
            self._by_name.pop(key, None)
        where = (self._api, *key)
        # A gang object of an opted-in workload lists no members.
        if gang is not None and gang.members:
            self._others[where] = gang
        else:
            self._others.pop(where, None)

    def having(self, namespace: str, members: list[str]) -> Iterator[LivingGang]:
        """The gangs that contain one of these members, once for each object."""
        for member in dict.fromkeys(members):
            if (found := self._by_name.get((namespace, member))) is not None:
                yield found._replace(members=(member,))
        for key in dict.fromkeys(key for one in members for key in self._others.having((namespace, one))):
            yield self._others[key]
