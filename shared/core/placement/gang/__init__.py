"""How the pods of a gang are laid out: attempt.py tries one flavor, lay_out.py tells how."""
