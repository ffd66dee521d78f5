"""What every service of Muster shares; imports point one way (docs/adr/0001)."""
