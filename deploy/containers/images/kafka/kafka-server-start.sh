#!/bin/bash
# Starts a broker: kafka-server-start.sh server.properties
export KAFKA_HEAP_OPTS="${KAFKA_HEAP_OPTS:--Xmx1G -Xms1G}"
exec /opt/kafka/bin/kafka-run-class.sh kafka.Kafka "$@"
