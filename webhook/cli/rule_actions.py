"""The action that each rule takes in a configuration."""

from __future__ import annotations

from webhook.config.settings import Profile, Settings
from webhook.model.findings import Action

# The word for a rule that does nothing.
OFF = "off"


def actions_in(profile: Profile) -> dict[str, Action | None]:
    """Return the action of each rule that the profile's scheduler has; None if the configuration turned it off."""
    taken = {bound.rule.id: bound.action for bound in profile.rules[profile.ceiling]}
    return {declared.id: taken.get(declared.id) for declared in profile.every_rule}


def actions_of(settings: Settings) -> dict[str, dict[str, str]]:
    """Return the actions of each rule by scheduler, in words. A rule about the choice of a scheduler belongs to none
    and is left out: no configuration changes it.
    """
    found: dict[str, dict[str, str]] = {}
    for profile in settings.profiles.values():
        for rule_id, action in actions_in(profile).items():
            found.setdefault(rule_id, {})[profile.name] = OFF if action is None else str(action)
    return found
