/* GPUs: what they are, and their values. */
#include "stand_in.h"

#include <stdio.h>
#include <string.h>

typedef unsigned long long Count;

#define UINT(name, key) \
    EXPORT int name(Handle device, unsigned *told) { return tell_uint(device, #name, key, told); }

UINT(nvmlDeviceGetMinorNumber, "minor")
UINT(nvmlDeviceGetPowerUsage, "power_mw")
UINT(nvmlDeviceGetEnforcedPowerLimit, "power_limit_mw")
UINT(nvmlDeviceGetFanSpeed, "fan")
UINT(nvmlDeviceGetCurrPcieLinkGeneration, "pcie_gen")
UINT(nvmlDeviceGetCurrPcieLinkWidth, "pcie_width")
UINT(nvmlDeviceGetMaxPcieLinkGeneration, "pcie_gen_max")
UINT(nvmlDeviceGetMaxPcieLinkWidth, "pcie_width_max")
UINT(nvmlDeviceGetMaxMigDeviceCount, "mig_devices_max")

static int system_text(const char *call, const char *key, char *told, unsigned length) {
    int code = gate(WHOLE_NODE, call);
    const char *value = state_get("%s", key);
    if (code || !value) return code ? code : NOT_SUPPORTED;
    snprintf(told, length, "%s", value);
    return SUCCESS;
}

EXPORT int nvmlSystemGetDriverVersion(char *told, unsigned length) {
    return system_text("nvmlSystemGetDriverVersion", "driver", told, length);
}

EXPORT int nvmlSystemGetCudaDriverVersion_v2(int *told) {
    int code = gate(WHOLE_NODE, "nvmlSystemGetCudaDriverVersion_v2");
    *told = (int)state_or(0, "cuda");
    return code;
}

EXPORT int nvmlDeviceGetCount_v2(unsigned *told) {
    int code = gate(WHOLE_NODE, "nvmlDeviceGetCount_v2");
    *told = (unsigned)state_or(0, "count");
    return code;
}

EXPORT int nvmlDeviceGetHandleByIndex_v2(unsigned index, Handle *told) {
    if (index >= state_or(0, "count")) return INVALID_ARGUMENT;
    *told = handle_of((int)index, -1);
    return gate((int)index, "nvmlDeviceGetHandleByIndex_v2");
}

EXPORT int nvmlDeviceGetHandleByUUID(const char *uuid, Handle *told) {
    for (unsigned index = 0; index < state_or(0, "count"); index++) {
        const char *known = state_get("gpu.%u.uuid", index);
        if (known && !strcmp(known, uuid)) return nvmlDeviceGetHandleByIndex_v2(index, told);
    }
    return NOT_FOUND;
}

EXPORT int nvmlDeviceGetName(Handle device, char *told, unsigned length) {
    return tell_text(device, "nvmlDeviceGetName", "name", told, length);
}

EXPORT int nvmlDeviceGetUUID(Handle device, char *told, unsigned length) {
    char key[32] = "uuid";
    if (instance_of(device) >= 0) snprintf(key, sizeof key, "mig.%d.uuid", instance_of(device));
    return tell_text(device, "nvmlDeviceGetUUID", key, told, length);
}

struct Pci {
    char legacy[16];
    unsigned domain, bus, device, id, subsystem;
    char address[32];
};

EXPORT int nvmlDeviceGetPciInfo_v3(Handle device, struct Pci *told) {
    memset(told, 0, sizeof *told);
    return tell_text(device, "nvmlDeviceGetPciInfo_v3", "pci", told->address, 32);
}

struct Memory { Count total, free, used; };
struct Memory2 { unsigned version; Count total, reserved, free, used; };

static int memory_of(Handle device, const char *call, struct Memory2 *told) {
    int code = gate(gpu_of(device), call);
    char where[48];
    snprintf(where, sizeof where, "gpu.%d.", gpu_of(device));
    if (instance_of(device) >= 0)
        snprintf(where, sizeof where, "gpu.%d.mig.%d.", gpu_of(device), instance_of(device));
    const double mib = 1 << 20;
    told->total = (Count)(state_or(0, "%smemory_mib", where) * mib);
    told->reserved = (Count)(state_or(0, "%sreserved_mib", where) * mib);
    told->used = (Count)(state_or(0, "%sused_mib", where) * mib);
    told->free = told->total - told->reserved - told->used;
    return code;
}

EXPORT int nvmlDeviceGetMemoryInfo_v2(Handle device, struct Memory2 *told) {
    if (state_or(0, "old")) return NOT_SUPPORTED;
    return memory_of(device, "nvmlDeviceGetMemoryInfo_v2", told);
}

EXPORT int nvmlDeviceGetMemoryInfo(Handle device, struct Memory *told) {
    struct Memory2 all;
    int code = memory_of(device, "nvmlDeviceGetMemoryInfo", &all);
    *told = (struct Memory){all.total, all.free, all.used + all.reserved};
    return code;
}

EXPORT int nvmlDeviceGetUtilizationRates(Handle device, unsigned told[2]) {
    int code = tell_uint(device, "nvmlDeviceGetUtilizationRates", "util", &told[0]);
    return code ? code : tell_uint(device, "nvmlDeviceGetUtilizationRates", "util_mem", &told[1]);
}

EXPORT int nvmlDeviceGetEncoderUtilization(Handle device, unsigned *told, unsigned *period) {
    *period = 100000;
    return tell_uint(device, "nvmlDeviceGetEncoderUtilization", "encoder", told);
}

EXPORT int nvmlDeviceGetDecoderUtilization(Handle device, unsigned *told, unsigned *period) {
    *period = 100000;
    return tell_uint(device, "nvmlDeviceGetDecoderUtilization", "decoder", told);
}

EXPORT int nvmlDeviceGetTemperature(Handle device, unsigned sensor, unsigned *told) {
    (void)sensor;
    return tell_uint(device, "nvmlDeviceGetTemperature", "temperature", told);
}

struct Temperature { unsigned version, sensor; int celsius; };

EXPORT int nvmlDeviceGetTemperatureV(Handle device, struct Temperature *told) {
    if (state_or(0, "old")) return NOT_SUPPORTED;
    return tell_uint(device, "nvmlDeviceGetTemperatureV", "temperature", (unsigned *)&told->celsius);
}

EXPORT int nvmlDeviceGetTemperatureThreshold(Handle device, unsigned which, unsigned *told) {
    char key[32];
    snprintf(key, sizeof key, "threshold.%u", which);
    return tell_uint(device, "nvmlDeviceGetTemperatureThreshold", key, told);
}

EXPORT int nvmlDeviceGetClockInfo(Handle device, unsigned which, unsigned *told) {
    char key[32];
    snprintf(key, sizeof key, "clock.%u", which);
    return tell_uint(device, "nvmlDeviceGetClockInfo", key, told);
}

EXPORT int nvmlDeviceGetCurrentClocksEventReasons(Handle device, Count *told) {
    unsigned bits;
    int code = tell_uint(device, "nvmlDeviceGetCurrentClocksEventReasons", "reasons", &bits);
    *told = bits;
    return code;
}

struct Field {
    unsigned id, scope;
    long long at_us, took_us;
    unsigned type, code;
    union { double real; Count whole; } value;
};

#define TYPE_COUNT 3 /* NVML_VALUE_TYPE_UNSIGNED_LONG_LONG */

EXPORT int nvmlDeviceGetFieldValues(Handle device, int count, struct Field *fields) {
    int code = gate(gpu_of(device), "nvmlDeviceGetFieldValues");
    for (int at = 0; at < count && !code; at++) {
        double value = 0;
        int known = state_number(&value, "gpu.%d.field.%u", gpu_of(device), fields[at].id);
        fields[at].code = known ? SUCCESS : NOT_SUPPORTED;
        fields[at].type = TYPE_COUNT;
        fields[at].value.whole = (Count)value;
    }
    return code;
}

struct Process { unsigned pid; Count memory; unsigned instance, compute; };

EXPORT int nvmlDeviceGetComputeRunningProcesses_v3(
    Handle device, unsigned *count, struct Process *told) {
    int code = gate(gpu_of(device), "nvmlDeviceGetComputeRunningProcesses_v3");
    unsigned room = *count, found = (unsigned)state_or(0, "gpu.%d.processes", gpu_of(device));
    *count = found;
    if (code || found > room) return code ? code : INSUFFICIENT_SIZE;
    for (unsigned at = 0; at < found; at++) {
        told[at].pid = (unsigned)state_or(0, "gpu.%d.process.%u.pid", gpu_of(device), at);
        told[at].memory =
            (Count)(state_or(0, "gpu.%d.process.%u.mib", gpu_of(device), at) * (1 << 20));
        told[at].instance = told[at].compute = ALL_ONES;
    }
    return SUCCESS;
}
