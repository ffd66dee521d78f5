"""The services of Muster; none imports another."""
