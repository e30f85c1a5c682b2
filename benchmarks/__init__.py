"""How fast an admission is answered: `python -m benchmarks`. What the figures mean is in README.md."""
