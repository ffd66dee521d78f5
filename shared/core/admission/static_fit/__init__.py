"""Could it ever run on this fleet, were it empty? Asked at admission."""
