"""The log on Kafka: `KafkaPublisher` and `KafkaSubscription` are ports of ports/publisher.py.

Topics are made by `topics`, users and rules by `administration`; `client` is what every client
begins with.
"""

from shared.adapters.kafka.newest import KafkaNewest
from shared.adapters.kafka.publisher import KafkaPublisher
from shared.adapters.kafka.subscription import KafkaSubscription

__all__ = ["KafkaNewest", "KafkaPublisher", "KafkaSubscription"]
