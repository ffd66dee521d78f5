"""Documents that are made from the code, so that they cannot say anything else than it does."""
