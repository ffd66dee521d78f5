"""The HTTP door of Muster and its read model: authenticates, checks form, answers reads."""
