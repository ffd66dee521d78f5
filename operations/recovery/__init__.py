"""What is done after a store went back: records sent again, Kafka made anew (docs/operate.md)."""
