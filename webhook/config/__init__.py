"""The configuration file: what its sections may hold, as models and as a JSON schema, and the settings it comes to."""
