/* How GPUs reach each other and the processors: NVLinks, fabric, PCIe, NUMA.
 *
 * `links` of a GPU go to switches, but `link.L.gpu = M` goes to that GPU, and `link.L.active = 0`
 * is down. `ancestor` is that to all others, `ancestor.M` that to one.
 */
#include "stand_in.h"

#include <stdio.h>
#include <string.h>

enum { TO_GPU = 0, TO_SWITCH = 2 };

#define SWITCH "00000000:F0:00.0"
#define PCI_ADDRESS 36 /* offset in the structure of an address */
#define PCI_SIZE 68

/* -- NVLinks -- */

static int gate_link(Handle device, const char *call, unsigned link) {
    unsigned links = 0;
    int code = tell_uint(device, call, &links, "links");
    return !code && link >= links ? INVALID_ARGUMENT : code;
}

static int is_active(Handle device, unsigned link) {
    return (int)state_or(1, "gpu.%d.link.%u.active", gpu_of(device), link);
}

static int peer_of(Handle device, unsigned link) {
    return (int)state_or(-1, "gpu.%d.link.%u.gpu", gpu_of(device), link);
}

EXPORT int nvmlDeviceGetNvLinkState(Handle device, unsigned link, unsigned *told) {
    int code = gate_link(device, __func__, link);
    if (!code) *told = (unsigned)is_active(device, link);
    return code;
}

EXPORT int nvmlDeviceGetNvLinkVersion(Handle device, unsigned link, unsigned *told) {
    int code = gate_link(device, __func__, link);
    return code ? code : tell_uint(device, __func__, told, "nvlink_version");
}

EXPORT int nvmlDeviceGetNvLinkRemoteDeviceType(Handle device, unsigned link, unsigned *told) {
    int code = gate_link(device, __func__, link);
    if (code || !is_active(device, link)) return code ? code : NOT_SUPPORTED;
    *told = peer_of(device, link) < 0 ? TO_SWITCH : TO_GPU;
    return SUCCESS;
}

EXPORT int nvmlDeviceGetNvLinkRemotePciInfo_v2(Handle device, unsigned link, char *told) {
    int code = gate_link(device, __func__, link);
    if (code || !is_active(device, link)) return code ? code : NOT_SUPPORTED;
    const char *pci = state_get("gpu.%d.pci", peer_of(device, link));
    memset(told, 0, PCI_SIZE);
    return tell_text(told + PCI_ADDRESS, PCI_SIZE - PCI_ADDRESS, pci ? pci : SWITCH);
}

/* -- fabric: `clique`, `cluster` in hexadecimal, of the node or of one GPU -- */

struct Fabric {
    unsigned version;
    unsigned char cluster[16];
    unsigned status, clique, state, health;
    unsigned char summary; /* third version only */
};

#define FABRIC_2 0x02000024u
#define FABRIC_3 0x03000028u
#define FABRIC_COMPLETED 3

static const char *fabric_text(int gpu, const char *key) {
    const char *own = state_get("gpu.%d.%s", gpu, key);
    return own ? own : state_get("%s", key);
}

static unsigned fabric_number(int gpu, const char *key, unsigned otherwise) {
    unsigned number;
    const char *text = fabric_text(gpu, key);
    return text && sscanf(text, "%u", &number) == 1 ? number : otherwise;
}

static void parse_cluster(const char *text, unsigned char told[16]) {
    memset(told, 0, 16);
    for (int at = 0; text && *text && at < 16; text++) {
        unsigned byte;
        if (*text == '-' || sscanf(text, "%2x", &byte) != 1) continue;
        told[at++] = (unsigned char)byte;
        text++;
    }
}

EXPORT int nvmlDeviceGetGpuFabricInfoV(Handle device, struct Fabric *told) {
    int code = gate_whole(device, __func__), gpu = gpu_of(device);
    if (code || !fabric_text(gpu, "clique")) return code ? code : NOT_SUPPORTED;
    if (told->version != FABRIC_2 && told->version != FABRIC_3) return VERSION_MISMATCH;
    parse_cluster(fabric_text(gpu, "cluster"), told->cluster);
    told->clique = fabric_number(gpu, "clique", 0);
    told->status = fabric_number(gpu, "fabric_status", SUCCESS);
    told->state = fabric_number(gpu, "fabric_state", FABRIC_COMPLETED);
    told->health = fabric_number(gpu, "fabric_health", 0);
    if (told->version == FABRIC_3)
        told->summary = (unsigned char)fabric_number(gpu, "fabric_summary", 0);
    return SUCCESS;
}

/* -- PCIe and NUMA -- */

EXPORT int nvmlDeviceGetTopologyCommonAncestor(Handle one, Handle other, unsigned *told) {
    int code = gate_whole(one, __func__);
    if (!code) code = gate_whole(other, __func__);
    if (code) return code;
    int low = gpu_of(one), high = gpu_of(other);
    double found = state_or(-1, "gpu.%d.ancestor", low);
    found = state_or(found, "gpu.%d.ancestor.%d", high, low);
    found = state_or(found, "gpu.%d.ancestor.%d", low, high);
    if (found < 0) return NOT_SUPPORTED;
    *told = low == high ? 0 : (unsigned)found;
    return SUCCESS;
}

EXPORT int nvmlDeviceGetMemoryAffinity(
    Handle device, unsigned words, unsigned long *told, unsigned scope) {
    unsigned numa = 0;
    (void)scope;
    int code = tell_uint(device, __func__, &numa, "numa");
    if (code) return code;
    if (numa / 64 >= words) return INSUFFICIENT_SIZE;
    memset(told, 0, words * sizeof *told);
    told[numa / 64] = 1ul << (numa % 64);
    return SUCCESS;
}

/* Of boards whose own memory is a NUMA node. */
EXPORT int nvmlDeviceGetNumaNodeId(Handle device, unsigned *told) {
    return tell_uint(device, __func__, told, "numa_own");
}
