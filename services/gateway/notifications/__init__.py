"""How destinations of notifications stand, and a test of one."""
