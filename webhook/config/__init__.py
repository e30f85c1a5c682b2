"""The configuration file: its sections as models and as a JSON schema, and the settings that it results in."""
