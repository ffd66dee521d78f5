"""Claims of devices: the devices, their holders, and how a pod gets its own."""
