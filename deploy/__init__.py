"""How Muster is put on machines; only `deploy.local` is code."""
