"""The images that docker-compose.yml and the tests run on."""

from deploy.local.kafka_jars import VERSION

PYTHON_IMAGE = "python:3.11-slim"
POSTGRES_IMAGE = "postgres:17"
KAFKA_IMAGE = f"apache/kafka:{VERSION}"
BASE_IMAGES = (PYTHON_IMAGE, POSTGRES_IMAGE, KAFKA_IMAGE)
MUSTER_IMAGE = "muster-gpu"
