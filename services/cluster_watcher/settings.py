"""Settings that only the cluster watcher has (prefix `MUSTER_`)."""

from __future__ import annotations

from typing import Final

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict

from shared.adapters.kubernetes.label_keys import POOL_LABELS, Keys
from shared.core.kubernetes.inventory import LabelKeys

NODE_LOST_SECONDS: Final = 120.0


def _keys(what: str, *default: str) -> tuple[str, ...]:
    keys: tuple[str, ...] = Field(default=default, description=f"label keys of {what}")
    return keys


class WatcherSettings(BaseSettings):
    """Which nodes are reported, and under which labels their properties are found."""

    model_config = SettingsConfigDict(env_prefix="MUSTER_", extra="ignore", frozen=True)

    node_selector: str = Field(
        default="", description="label selector of the nodes that are reported; empty: all"
    )
    node_lost_seconds: float = Field(
        default=NODE_LOST_SECONDS,
        ge=0,
        description="a node that is NotReady for longer is lost: its work is placed elsewhere",
    )
    taint_nodes: bool = Field(
        default=True,
        description="whether nodes carry taints where Muster keeps work off them or their GPUs",
    )
    flavors: dict[str, str] = Field(
        default_factory=dict,
        description="flavor by GPU product, as a JSON object, for nodes without a label of it;"
        " others: the product's name in lower case, or cpu",
    )
    labels_flavor: Keys = _keys("the flavor", "muster.dev/flavor")
    labels_product: Keys = _keys("the GPU product", "nvidia.com/gpu.product")
    labels_memory: Keys = _keys("the memory of a GPU in MiB", "nvidia.com/gpu.memory")
    labels_pool: Keys = _keys("the pool that the node is dedicated to", *POOL_LABELS)
    labels_driver: Keys = _keys("the driver", "nvidia.com/cuda.driver-version.full")
    labels_cuda: Keys = _keys(
        "the newest CUDA that the driver supports", "nvidia.com/cuda.runtime-version.full"
    )
    labels_mig_strategy: Keys = _keys("the MIG strategy", "nvidia.com/mig.strategy")
    labels_zone: Keys = _keys("the zone", "topology.kubernetes.io/zone")
    labels_block: Keys = _keys("the block of the fabric", "topology.muster.dev/block")
    labels_rack: Keys = _keys("the rack", "topology.muster.dev/rack")
    labels_nvlink_domain: Keys = _keys(
        "the NVLink domain that spans nodes", "nvidia.com/gpu.clique"
    )

    @property
    def label_keys(self) -> LabelKeys:
        """The keys as the core takes them."""
        return LabelKeys(
            flavor=self.labels_flavor,
            product=self.labels_product,
            memory=self.labels_memory,
            pool=self.labels_pool,
            driver=self.labels_driver,
            cuda=self.labels_cuda,
            mig_strategy=self.labels_mig_strategy,
            zone=self.labels_zone,
            block=self.labels_block,
            rack=self.labels_rack,
            nvlink_domain=self.labels_nvlink_domain,
        )
