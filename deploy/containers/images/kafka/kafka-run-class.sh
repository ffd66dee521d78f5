#!/bin/bash
# Runs a class of Kafka, with the heap of KAFKA_HEAP_OPTS.
exec java ${KAFKA_HEAP_OPTS:--Xmx256M} -Dlog4j2.configurationFile=/opt/kafka/config/log4j2.properties -cp '/opt/kafka/libs/*' "$@"
