"""What a process tells about itself: logs, metrics and spans."""
