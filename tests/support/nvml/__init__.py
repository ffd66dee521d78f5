"""A stand-in of NVIDIA's NVML: `StandIn` writes what it answers, `boards` are ready-made.

Keys of the node: `driver`, `nvml`, `cuda`, `count`, `old` (no MemoryInfo v2, no TemperatureV),
`clique`, `cluster`, `event.N`, `events_from_now`; of a GPU after `gpu.N.`: `name`, `uuid`,
`serial`, `minor`, `pci`, `pci_id`, `memory_mib`, `used_mib`, `reserved_mib`, `util`, `util_mem`,
`encoder`, `decoder`, `temperature`, `margin`, `threshold.T`, `clock.T`, `reasons`, `fan`,
`power_mw`, `power_limit_mw`, `ecc`, `pcie_gen[_max]`, `pcie_width[_max]`,
`field.F[.LINK|.type|.error]`, `processes`, `process.P.{pid,mib,instance,compute}`, `links`,
`link.L.{active,gpu}`, `nvlink_version`, `ancestor[.M]`, `numa`, `numa_own`, `gpm`, `gpm.M`,
`event_types`, `mig_mode`, `mig_needs_reset`, `mig_devices_max`,
`profile.P.{id,name,slices,size,max,starts,memory_mib,..}`,
`mig.I.{uuid,id,profile,start,size,compute,memory_mib,used_mib,gpm.M}`. Faults: see `calls.c`.
"""

from tests.support.nvml.stand_in import StandIn, build

__all__ = ["StandIn", "build"]
