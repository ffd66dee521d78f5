#!/bin/bash
# Formats the storage of a broker.
exec /opt/kafka/bin/kafka-run-class.sh kafka.tools.StorageTool "$@"
