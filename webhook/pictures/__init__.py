"""Pictures of gangs as text, SVG and Mermaid, without I/O. All formats draw the same folded boxes."""
