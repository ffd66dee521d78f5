"""What crosses a wire: envelope, message types, codec, topics."""
