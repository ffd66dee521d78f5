"""One adapter for each technology behind the ports."""
