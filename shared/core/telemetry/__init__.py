"""What is read of the GPUs of a node: values by their names, what changed, how it is exposed."""
