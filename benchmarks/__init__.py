"""How fast an admission is answered, and a thousand gangs are written. What the figures mean is in README.md."""
