"""docker-compose.yml on a container engine."""
