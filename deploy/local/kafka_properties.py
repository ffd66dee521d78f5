"""The broker's configuration, for the local runner and for docker-compose.yml.

One node is broker and controller. Secured: every client logs in with SCRAM-SHA-512 and may do what
a rule allows it; `admin` may do everything. A controller cannot ask itself for a SCRAM credential
before it runs, so between broker and controller the same password goes by PLAIN.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from shared.adapters.kafka.client import MECHANISM
from shared.ports.kafka_access import SecurityProtocol

ADMIN = "admin"
_COMMON = """\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
controller.listener.names=CONTROLLER
listeners={listeners},CONTROLLER://127.0.0.1:{controller}
advertised.listeners={advertised}
listener.security.protocol.map={protocols},CONTROLLER:{protocol}
inter.broker.listener.name=CLIENTS
log.dirs={data}
auto.create.topics.enable=false
num.partitions=1
default.replication.factor=1
min.insync.replicas=1
offsets.topic.num.partitions=1
offsets.topic.replication.factor=1
transaction.state.log.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
share.coordinator.state.topic.num.partitions=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
group.initial.rebalance.delay.ms=0
log.segment.bytes=67108864
log.cleaner.dedupe.buffer.size=16777216
message.max.bytes=2097152
broker.session.timeout.ms=9000
"""
_SECURED = """\
super.users=User:{admin}
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
allow.everyone.if.no.acl.found=false
sasl.enabled.mechanisms={mechanism}
sasl.mechanism.inter.broker.protocol={mechanism}
sasl.mechanism.controller.protocol=PLAIN
listener.name.controller.sasl.enabled.mechanisms=PLAIN
listener.name.controller.plain.sasl.jaas.config={plain} {login} user_{admin}="{password}";
"""
_SCRAM_MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule required"
_PLAIN_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule required"


@dataclass(frozen=True, slots=True, kw_only=True)
class Listener:
    """Where a broker listens for clients, and the address that it tells them.

    A broker that clients reach by two addresses, inside and outside a network of containers, has
    one listener for each: a client that is told the wrong one cannot go on.
    """

    name: str = "CLIENTS"
    listen: str
    port: int
    advertised: str


def broker_properties(
    *, listeners: Sequence[Listener], controller: int, data: str, password: str
) -> str:
    """The text of `server.properties`; without a password everybody may do everything.

    The first listener, which is named CLIENTS, is that of brokers between themselves.
    """
    protocol = SecurityProtocol.SASL_PLAINTEXT if password else SecurityProtocol.PLAINTEXT
    text = _COMMON.format(
        listeners=",".join(f"{one.name}://{one.listen}:{one.port}" for one in listeners),
        advertised=",".join(f"{one.name}://{one.advertised}" for one in listeners),
        protocols=",".join(f"{one.name}:{protocol.value}" for one in listeners),
        controller=controller,
        data=data,
        protocol=protocol.value,
    )
    if not password:
        return text
    return text + _logins(listeners, password)


def _logins(listeners: Sequence[Listener], password: str) -> str:
    own = "".join(
        f"listener.name.{one.name.lower()}.{MECHANISM.lower()}.sasl.jaas.config="
        f"{_SCRAM_MODULE} {_login(password)};\n"
        for one in listeners
    )
    return own + _SECURED.format(
        admin=ADMIN,
        mechanism=MECHANISM,
        plain=_PLAIN_MODULE,
        login=_login(password),
        password=password,
    )


def first_user(password: str) -> str:
    """`admin` for `--add-scram`: somebody must be there before anybody can be let in."""
    return f"{MECHANISM}=[name={ADMIN},password={password}]"


def _login(password: str) -> str:
    return f'username="{ADMIN}" password="{password}"'
