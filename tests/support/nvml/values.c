/* Values of a GPU: memory, use, heat, power, clocks, PCIe, errors, fields, processes. */
#include "stand_in.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MIB 1048576.0
#define PERIOD_US 100000

#define UINT(name, key) \
    EXPORT int name(Handle device, unsigned *told) { return tell_uint(device, #name, told, key); }
#define COUNT(name, key) \
    EXPORT int name(Handle device, Count *told) { return tell_count(device, #name, told, key); }

UINT(nvmlDeviceGetPowerUsage, "power_mw")
UINT(nvmlDeviceGetEnforcedPowerLimit, "power_limit_mw")
UINT(nvmlDeviceGetFanSpeed, "fan")
UINT(nvmlDeviceGetCurrPcieLinkGeneration, "pcie_gen")
UINT(nvmlDeviceGetCurrPcieLinkWidth, "pcie_width")
UINT(nvmlDeviceGetMaxPcieLinkGeneration, "pcie_gen_max")
UINT(nvmlDeviceGetMaxPcieLinkWidth, "pcie_width_max")
UINT(nvmlDeviceGetPcieReplayCounter, "field.94")
COUNT(nvmlDeviceGetTotalEnergyConsumption, "field.83")
COUNT(nvmlDeviceGetCurrentClocksEventReasons, "reasons")

static long long now_us(void) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return now.tv_sec * 1000000ll + now.tv_nsec / 1000;
}

/* -- memory -- */

struct Memory { Count total, free, used; };
struct Memory2 { unsigned version; Count total, reserved, free, used; };

#define MEMORY_2 0x02000028

static Count bytes_of(Handle device, const char *key) {
    int gpu = gpu_of(device), at = instance_of(device);
    double mib = at < 0 ? state_or(0, "gpu.%d.%s", gpu, key)
                        : state_or(0, "gpu.%d.mig.%d.%s", gpu, at, key);
    return (Count)(mib * MIB);
}

static Count all_bytes_of(Handle device) {
    int at = instance_of(device);
    return at < 0 ? bytes_of(device, "memory_mib")
                  : (Count)(instance_mib(gpu_of(device), at) * MIB);
}

static int memory_of(Handle device, const char *call, struct Memory2 *told) {
    int code = gate(device, call);
    if (code) return code;
    told->total = all_bytes_of(device);
    if (!told->total) return NOT_SUPPORTED;
    told->reserved = bytes_of(device, "reserved_mib");
    told->used = bytes_of(device, "used_mib");
    told->free = told->total - told->reserved - told->used;
    return SUCCESS;
}

EXPORT int nvmlDeviceGetMemoryInfo_v2(Handle device, struct Memory2 *told) {
    if (told->version != MEMORY_2) return VERSION_MISMATCH;
    return state_or(0, "old") ? NOT_SUPPORTED : memory_of(device, __func__, told);
}

/* The first version counts what is reserved as used. */
EXPORT int nvmlDeviceGetMemoryInfo(Handle device, struct Memory *told) {
    struct Memory2 all;
    int code = memory_of(device, __func__, &all);
    if (!code) *told = (struct Memory){all.total, all.free, all.used + all.reserved};
    return code;
}

/* -- use: not told in MIG mode -- */

static int use_of(Handle device, const char *call, unsigned *told, const char *key) {
    int code = tell_uint(device, call, told, "%s", key);
    return !code && mig_is_on(gpu_of(device)) ? NOT_SUPPORTED : code;
}

EXPORT int nvmlDeviceGetUtilizationRates(Handle device, unsigned told[2]) {
    int code = use_of(device, __func__, &told[0], "util");
    if (!code) told[1] = (unsigned)state_or(0, "gpu.%d.util_mem", gpu_of(device));
    return code;
}

EXPORT int nvmlDeviceGetEncoderUtilization(Handle device, unsigned *told, unsigned *period) {
    *period = PERIOD_US;
    return use_of(device, __func__, told, "encoder");
}

EXPORT int nvmlDeviceGetDecoderUtilization(Handle device, unsigned *told, unsigned *period) {
    *period = PERIOD_US;
    return use_of(device, __func__, told, "decoder");
}

/* -- heat, clocks -- */

EXPORT int nvmlDeviceGetTemperature(Handle device, unsigned sensor, unsigned *told) {
    int code = tell_uint(device, __func__, told, "temperature");
    return !code && sensor ? INVALID_ARGUMENT : code;
}

struct Temperature { unsigned version, sensor, celsius; };

#define TEMPERATURE_1 0x100000C

EXPORT int nvmlDeviceGetTemperatureV(Handle device, struct Temperature *told) {
    if (told->version != TEMPERATURE_1) return VERSION_MISMATCH;
    if (state_or(0, "old")) return NOT_SUPPORTED;
    return tell_uint(device, __func__, &told->celsius, "temperature");
}

struct Margin { unsigned version, celsius; };

#define MARGIN_1 0x1000008

EXPORT int nvmlDeviceGetMarginTemperature(Handle device, struct Margin *told) {
    if (told->version != MARGIN_1) return VERSION_MISMATCH;
    return tell_uint(device, __func__, &told->celsius, "margin");
}

EXPORT int nvmlDeviceGetTemperatureThreshold(Handle device, unsigned which, unsigned *told) {
    return tell_uint(device, __func__, told, "threshold.%u", which);
}

EXPORT int nvmlDeviceGetClockInfo(Handle device, unsigned which, unsigned *told) {
    return tell_uint(device, __func__, told, "clock.%u", which);
}

/* -- errors: the fields tell the same -- */

struct Violation { Count at_us, time_ns; };

EXPORT int nvmlDeviceGetViolationStatus(Handle device, unsigned policy, struct Violation *told) {
    if (policy > 5) return NOT_SUPPORTED;
    told->at_us = (Count)now_us();
    return tell_count(device, __func__, &told->time_ns, "field.%u", 74 + policy);
}

EXPORT int nvmlDeviceGetEccMode(Handle device, unsigned *now, unsigned *pending) {
    int code = tell_uint(device, __func__, now, "ecc");
    if (!code) *pending = (unsigned)state_or(*now, "gpu.%d.ecc_pending", gpu_of(device));
    return code;
}

EXPORT int nvmlDeviceGetTotalEccErrors(
    Handle device, unsigned uncorrected, unsigned aggregate, Count *told) {
    return tell_count(device, __func__, told, "field.%u", 3 + uncorrected + 2 * aggregate);
}

EXPORT int nvmlDeviceGetRemappedRows(
    Handle device, unsigned *correctable, unsigned *not, unsigned *pending, unsigned *failed) {
    unsigned *told[] = {correctable, not, pending, failed};
    int code = SUCCESS;
    for (unsigned at = 0; at < 4 && !code; at++)
        code = tell_uint(device, __func__, told[at], "field.%u", 142 + at);
    return code;
}

/* -- fields: `field.N`, of a link `field.N.LINK`; `field.N.type`, `field.N.error` -- */

enum { TYPE_REAL = 0, TYPE_COUNT = 3, TYPE_LONG = 4 };

struct Field {
    unsigned id, scope;
    long long at_us, took_us;
    unsigned type, code;
    union { double real; Count whole; long long signed_; unsigned small; } value;
};

static const char *field_text(int gpu, const struct Field *field) {
    const char *of_scope = state_get("gpu.%d.field.%u.%u", gpu, field->id, field->scope);
    int whole = !field->scope || field->scope == ALL_ONES;
    return of_scope || !whole ? of_scope : state_get("gpu.%d.field.%u", gpu, field->id);
}

static unsigned type_of(const char *text) {
    if (strchr(text, '.')) return TYPE_REAL;
    return *text == '-' ? TYPE_LONG : TYPE_COUNT;
}

static void set_value(struct Field *field, double value) {
    memset(&field->value, 0xAA, sizeof field->value); /* what is not of the type means nothing */
    if (field->type == TYPE_REAL) field->value.real = value;
    else if (field->type == TYPE_COUNT) field->value.whole = (Count)value;
    else if (field->type == TYPE_LONG) field->value.signed_ = (long long)value;
    else field->value.small = (unsigned)(long long)value;
}

static void read_field(int gpu, struct Field *field) {
    const char *text = field_text(gpu, field);
    field->at_us = now_us();
    field->took_us = 1;
    field->code = (unsigned)state_or(SUCCESS, "gpu.%d.field.%u.error", gpu, field->id);
    if (!text && !field->code) field->code = NOT_SUPPORTED;
    if (field->code) return;
    field->type = (unsigned)state_or(type_of(text), "gpu.%d.field.%u.type", gpu, field->id);
    set_value(field, strtod(text, 0));
}

EXPORT int nvmlDeviceGetFieldValues(Handle device, int count, struct Field *fields) {
    int code = gate_whole(device, __func__);
    for (int at = 0; at < count && !code; at++) read_field(gpu_of(device), &fields[at]);
    return code;
}

/* -- processes: `processes` of them, `process.N.{pid,mib,instance,compute}` -- */

struct Process { unsigned pid; Count memory; unsigned instance, compute; };

static struct Process process_of(int gpu, unsigned at) {
    return (struct Process){
        .pid = (unsigned)state_or(0, "gpu.%d.process.%u.pid", gpu, at),
        .memory = (Count)(state_or(0, "gpu.%d.process.%u.mib", gpu, at) * MIB),
        .instance = (unsigned)state_or(ALL_ONES, "gpu.%d.process.%u.instance", gpu, at),
        .compute = (unsigned)state_or(ALL_ONES, "gpu.%d.process.%u.compute", gpu, at)};
}

EXPORT int nvmlDeviceGetComputeRunningProcesses_v3(
    Handle device, unsigned *count, struct Process *told) {
    int code = gate(device, __func__), gpu = gpu_of(device), at = instance_of(device);
    unsigned room = *count, all = (unsigned)state_or(0, "gpu.%d.processes", gpu);
    unsigned of = (unsigned)state_or(ALL_ONES, "gpu.%d.mig.%d.id", gpu, at);
    if (code) return code;
    *count = 0;
    for (unsigned one = 0; one < all; one++) {
        struct Process found = process_of(gpu, one);
        if (at >= 0 && found.instance != of) continue;
        if (*count < room) told[*count] = found;
        ++*count;
    }
    return *count > room ? INSUFFICIENT_SIZE : SUCCESS;
}
