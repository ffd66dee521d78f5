"""Lines of the kernel's log that tell an XID, and the same error told by two sources."""

from __future__ import annotations

import pytest

from shared.core.telemetry.kernel_log import SAME_MS, SeenXids, slot_of, xid_of

REAL = (
    "4,1187,53487046,-;NVRM: Xid (PCI:0000:00:06): 31, pid=500, name=bad, channel 0x0000000a,"
    " intr 00000000. MMU Fault: ENGINE GRAPHICS GPC1 GPCCLIENT_T1_8 faulted @ 0x0_00000000."
    " Fault is of type FAULT_PDE ACCESS_TYPE_VIRT_WRITE\n"
)
"""As an H200 with driver 580.159.04 logged it, with the head of a record of /dev/kmsg."""


def test_a_line_of_a_real_board():
    found = xid_of(REAL)

    assert found is not None
    assert (found.slot, found.xid) == ((0, 0, 6), 31)
    assert found.line.startswith("NVRM: Xid (PCI:0000:00:06): 31, pid=500")


@pytest.mark.parametrize(
    ("line", "slot", "xid"),
    [
        ("NVRM: Xid (PCI:0000:1a:00): 79, pid='<unknown>', name=x, GPU has fallen off the bus.",
         (0, 0x1A, 0), 79),
        ("NVRM: Xid (0000:03:00): 13, Graphics Exception", (0, 3, 0), 13),
        ("NVRM: Xid (PCI:0008:01:00): 48", (8, 1, 0), 48),
    ],
)  # fmt: skip
def test_lines_of_other_drivers(line, slot, xid):
    found = xid_of(line)

    assert found is not None
    assert (found.slot, found.xid) == (slot, xid)


@pytest.mark.parametrize(
    "line",
    [
        "NVRM: GPU at PCI:0000:00:06: GPU-3710040f",
        "NVRM: Xid (PCI:0000:1a:00): x",
        "nvidia-nvswitch3: SXid (PCI:0000:06:00.0): 20034, Fatal, Link 30",
        "",
        "NVRM: Xid (PCI:0000:1a:00): 79; and more",
    ],
)
def test_other_lines_tell_nothing(line):
    assert xid_of(line) is None


def test_a_long_line_is_cut():
    found = xid_of("NVRM: Xid (PCI:0000:1a:00): 79, " + "x" * 1_000)

    assert found is not None
    assert len(found.line) == 256


def test_addresses_of_nvml_and_of_the_kernel_are_the_same_slot():
    assert slot_of("00000000:1B:00.0") == slot_of("0000:1b:00") == (0, 0x1B, 0)
    assert slot_of("somewhere") is None


def test_one_error_told_by_both_sources_is_told_once():
    seen = SeenXids()

    assert seen.is_new("GPU-0", 31, "kernel", 1_000)
    assert not seen.is_new("GPU-0", 31, "nvml", 1_020)
    assert seen.is_new("GPU-0", 31, "kernel", 1_030), "a second error, told again by the kernel"
    assert not seen.is_new("GPU-0", 31, "nvml", 1_040)


def test_other_devices_other_codes_and_later_ones_are_other_errors():
    seen = SeenXids()

    assert seen.is_new("GPU-0", 31, "kernel", 0)
    assert seen.is_new("GPU-1", 31, "nvml", 0)
    assert seen.is_new("GPU-0", 13, "nvml", 0)
    assert seen.is_new("GPU-0", 31, "nvml", SAME_MS)
    assert seen.is_new("GPU-0", 31, "nvml", SAME_MS + 1), "one source twice: two errors"
