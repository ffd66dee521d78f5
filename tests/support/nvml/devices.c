/* The node, and what its GPUs are: handles, names, addresses. */
#include "stand_in.h"

#include <stdio.h>
#include <string.h>

/* -- the node -- */

static int node_text(const char *call, const char *key, char *told, unsigned length) {
    int code = gate_node(call);
    return code ? code : tell_text(told, length, state_get("%s", key));
}

EXPORT int nvmlSystemGetDriverVersion(char *told, unsigned length) {
    return node_text(__func__, "driver", told, length);
}

EXPORT int nvmlSystemGetNVMLVersion(char *told, unsigned length) {
    return node_text(__func__, "nvml", told, length);
}

static int cuda_version(const char *call, int *told) {
    double version;
    int code = gate_node(call);
    if (code) return code;
    if (!state_number(&version, "cuda")) return NOT_SUPPORTED;
    *told = (int)version;
    return SUCCESS;
}

EXPORT int nvmlSystemGetCudaDriverVersion(int *told) { return cuda_version(__func__, told); }

EXPORT int nvmlSystemGetCudaDriverVersion_v2(int *told) { return cuda_version(__func__, told); }

EXPORT int nvmlDeviceGetCount_v2(unsigned *told) {
    int code = gate_node(__func__);
    if (!code) *told = (unsigned)state_or(0, "count");
    return code;
}

/* -- handles -- */

static int hand_out(int gpu, int instance, const char *call, Handle *told) {
    *told = handle_of(gpu, instance);
    return gate(*told, call);
}

EXPORT int nvmlDeviceGetHandleByIndex_v2(unsigned index, Handle *told) {
    int code = gate_node(__func__);
    if (code) return code;
    if (index >= state_or(0, "count")) return INVALID_ARGUMENT;
    return hand_out((int)index, -1, __func__, told);
}

static int is_text(const char *text, const char *asked) { return text && !strcmp(text, asked); }

EXPORT int nvmlDeviceGetHandleByUUID(const char *uuid, Handle *told) {
    int code = gate_node(__func__);
    if (code) return code;
    for (int gpu = 0; gpu < state_or(0, "count"); gpu++) {
        if (is_text(state_get("gpu.%d.uuid", gpu), uuid)) return hand_out(gpu, -1, __func__, told);
        for (int at = 0; at < INSTANCES_MAX && mig_is_on(gpu); at++)
            if (is_text(state_get("gpu.%d.mig.%d.uuid", gpu, at), uuid))
                return hand_out(gpu, at, __func__, told);
    }
    return NOT_FOUND;
}

/* -- addresses -- */

struct Pci {
    char legacy[16];
    unsigned domain, bus, device, id, subsystem;
    char address[32];
};

static int parsed(const char *text, struct Pci *told) {
    return text && sscanf(text, "%x:%x:%x", &told->domain, &told->bus, &told->device) == 3;
}

EXPORT int nvmlDeviceGetHandleByPciBusId_v2(const char *address, Handle *told) {
    struct Pci asked, known;
    int code = gate_node(__func__);
    if (code) return code;
    if (!parsed(address, &asked)) return INVALID_ARGUMENT;
    for (int gpu = 0; gpu < state_or(0, "count"); gpu++)
        if (parsed(state_get("gpu.%d.pci", gpu), &known) && known.domain == asked.domain &&
            known.bus == asked.bus && known.device == asked.device)
            return hand_out(gpu, -1, __func__, told);
    return NOT_FOUND;
}

EXPORT int nvmlDeviceGetPciInfo_v3(Handle device, struct Pci *told) {
    int code = gate_whole(device, __func__);
    const char *text = state_get("gpu.%d.pci", gpu_of(device));
    if (code || !text) return code ? code : NOT_SUPPORTED;
    memset(told, 0, sizeof *told);
    parsed(text, told);
    told->id = (unsigned)state_or(0, "gpu.%d.pci_id", gpu_of(device));
    told->subsystem = (unsigned)state_or(0, "gpu.%d.pci_subsystem", gpu_of(device));
    snprintf(told->legacy, sizeof told->legacy, "%04X:%02X:%02X.0", told->domain & 0xFFFF,
             told->bus & 0xFF, told->device & 0xFF);
    return tell_text(told->address, sizeof told->address, text);
}

/* -- names -- */

EXPORT int nvmlDeviceGetName(Handle device, char *told, unsigned length) {
    int code = gate(device, __func__);
    const char *name = state_get("gpu.%d.name", gpu_of(device));
    char text[96];
    if (code || !name) return code ? code : NOT_SUPPORTED;
    const char *profile = profile_name(gpu_of(device), instance_of(device));
    snprintf(text, sizeof text, profile ? "%s MIG %s" : "%s", name, profile);
    return tell_text(told, length, text);
}

EXPORT int nvmlDeviceGetUUID(Handle device, char *told, unsigned length) {
    int code = gate(device, __func__), at = instance_of(device);
    if (code) return code;
    return tell_text(told, length,
                     at < 0 ? state_get("gpu.%d.uuid", gpu_of(device))
                            : state_get("gpu.%d.mig.%d.uuid", gpu_of(device), at));
}

EXPORT int nvmlDeviceGetSerial(Handle device, char *told, unsigned length) {
    int code = gate_whole(device, __func__);
    return code ? code : tell_text(told, length, state_get("gpu.%d.serial", gpu_of(device)));
}

EXPORT int nvmlDeviceGetIndex(Handle device, unsigned *told) {
    int code = gate_whole(device, __func__);
    if (!code) *told = (unsigned)gpu_of(device);
    return code;
}

EXPORT int nvmlDeviceGetMinorNumber(Handle device, unsigned *told) {
    return tell_uint(device, __func__, told, "minor");
}
