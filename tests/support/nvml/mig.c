/* MIG: profiles `gpu.N.profile.P.*`, MIG devices `gpu.N.mig.I.*`, and the mode.
 *
 * A mode that was set is kept in `<mig_file>.N`, as "now pending", so that all processes see it.
 * With `mig_needs_reset`, as on Ampere, only what is pending changes.
 */
#include "stand_in.h"

#include <stdio.h>
#include <string.h>

/* -- mode -- */

struct Mode { unsigned now, pending; };

static FILE *open_mode(int gpu, const char *how) {
    char path[512];
    const char *begin = state_get("mig_file");
    snprintf(path, sizeof path, "%s.%d", begin ? begin : "", gpu);
    return begin ? fopen(path, how) : 0;
}

static struct Mode mode_of(int gpu) {
    struct Mode mode = {(unsigned)state_or(0, "gpu.%d.mig_mode", gpu), 0};
    FILE *file = open_mode(gpu, "r");
    mode.pending = mode.now;
    if (!file) return mode;
    struct Mode set;
    if (fscanf(file, "%u %u", &set.now, &set.pending) == 2) mode = set;
    fclose(file);
    return mode;
}

int mig_is_on(int gpu) { return (int)mode_of(gpu).now; }

EXPORT int nvmlDeviceGetMigMode(Handle device, unsigned *now, unsigned *pending) {
    int code = tell_uint(device, __func__, now, "mig_mode");
    if (code) return code;
    struct Mode mode = mode_of(gpu_of(device));
    *now = mode.now;
    *pending = mode.pending;
    return SUCCESS;
}

static int has_instances(int gpu) {
    for (int at = 0; at < INSTANCES_MAX; at++)
        if (state_get("gpu.%d.mig.%d.uuid", gpu, at)) return mig_is_on(gpu);
    return 0;
}

EXPORT int nvmlDeviceSetMigMode(Handle device, unsigned mode, unsigned *status) {
    unsigned known;
    int gpu = gpu_of(device), code = tell_uint(device, __func__, &known, "mig_mode");
    if (code) return code;
    if (state_or(0, "gpu.%d.processes", gpu) || has_instances(gpu)) return IN_USE;
    struct Mode set = {mode, mode};
    if (state_or(0, "gpu.%d.mig_needs_reset", gpu)) set.now = mode_of(gpu).now;
    *status = set.now == set.pending ? SUCCESS : RESET_REQUIRED;
    FILE *file = open_mode(gpu, "w");
    if (!file) return NOT_SUPPORTED;
    fprintf(file, "%u %u\n", set.now, set.pending);
    fclose(file);
    return SUCCESS;
}

/* -- profiles -- */

struct Profile {
    unsigned id, p2p, slices, instances, processors, copy, decoders, encoders, jpeg, ofa;
    Count memory_mib;
};
struct Profile2 {
    unsigned version, id, p2p, slices, instances, processors, copy, decoders, encoders, jpeg, ofa;
    Count memory_mib;
    char name[96];
};

#define PROFILE_2 0x02000098

static unsigned of_profile(int gpu, unsigned number, const char *key) {
    return (unsigned)state_or(0, "gpu.%d.profile.%u.%s", gpu, number, key);
}

static int number_of(int gpu, unsigned id) {
    double known;
    for (int number = 0; number < PROFILES_MAX; number++)
        if (state_number(&known, "gpu.%d.profile.%d.id", gpu, number) && known == id)
            return number;
    return -1;
}

static int profile_of(int gpu, int instance) {
    double id;
    int known = instance >= 0 && state_number(&id, "gpu.%d.mig.%d.profile", gpu, instance);
    return known ? number_of(gpu, (unsigned)id) : -1;
}

const char *profile_name(int gpu, int instance) {
    return state_get("gpu.%d.profile.%d.name", gpu, profile_of(gpu, instance));
}

double instance_mib(int gpu, int instance) {
    int number = profile_of(gpu, instance);
    double usual = state_or(0, "gpu.%d.profile.%d.memory_mib", gpu, number);
    return state_or(usual, "gpu.%d.mig.%d.memory_mib", gpu, instance);
}

static int read_profile(Handle device, const char *call, unsigned number, struct Profile *told) {
    int code = gate_whole(device, call), gpu = gpu_of(device);
    if (code) return code;
    if (!state_get("gpu.%d.profile.%u.id", gpu, number)) return NOT_SUPPORTED;
    *told = (struct Profile){
        .id = of_profile(gpu, number, "id"),
        .p2p = of_profile(gpu, number, "p2p"),
        .slices = of_profile(gpu, number, "slices"),
        .instances = of_profile(gpu, number, "max"),
        .processors = of_profile(gpu, number, "processors"),
        .copy = of_profile(gpu, number, "copy"),
        .decoders = of_profile(gpu, number, "decoders"),
        .encoders = of_profile(gpu, number, "encoders"),
        .jpeg = of_profile(gpu, number, "jpeg"),
        .ofa = of_profile(gpu, number, "ofa"),
        .memory_mib = of_profile(gpu, number, "memory_mib")};
    return SUCCESS;
}

EXPORT int nvmlDeviceGetGpuInstanceProfileInfo(
    Handle device, unsigned number, struct Profile *told) {
    return read_profile(device, __func__, number, told);
}

EXPORT int nvmlDeviceGetGpuInstanceProfileInfoV(
    Handle device, unsigned number, struct Profile2 *told) {
    struct Profile found;
    if (told->version != PROFILE_2) return VERSION_MISMATCH;
    int code = read_profile(device, __func__, number, &found);
    if (code) return code;
    *told = (struct Profile2){PROFILE_2, found.id, found.p2p, found.slices, found.instances,
                              found.processors, found.copy, found.decoders, found.encoders,
                              found.jpeg, found.ofa, found.memory_mib, "MIG "};
    const char *name = state_get("gpu.%d.profile.%u.name", gpu_of(device), number);
    return tell_text(told->name + 4, sizeof told->name - 4, name);
}

struct Placement { unsigned start, size; };

/* Starts are written as "0 2 4"; all are told, occupied or not, in MIG mode or not. */
EXPORT int nvmlDeviceGetGpuInstancePossiblePlacements_v2(
    Handle device, unsigned id, struct Placement *told, unsigned *count) {
    int code = gate_whole(device, __func__), gpu = gpu_of(device);
    int number = code ? -1 : number_of(gpu, id);
    if (number < 0) return code ? code : NOT_SUPPORTED;
    const char *starts = state_get("gpu.%d.profile.%d.starts", gpu, number);
    unsigned room = *count, start;
    *count = 0;
    for (int used; starts && sscanf(starts, "%u%n", &start, &used) == 1; starts += used) {
        if (told && *count == room) return INSUFFICIENT_SIZE;
        if (told) told[*count] = (struct Placement){start, of_profile(gpu, number, "size")};
        ++*count;
    }
    return SUCCESS;
}

/* -- instances: several MIG devices may be of one GPU instance -- */

static unsigned of_instance(Handle handle, const char *key, double otherwise) {
    return (unsigned)state_or(
        otherwise, "gpu.%d.mig.%d.%s", gpu_of(handle), instance_of(handle), key);
}

static int is_first(int gpu, int at) {
    double id = state_or(-1, "gpu.%d.mig.%d.id", gpu, at);
    for (int before = 0; before < at; before++)
        if (state_or(-2, "gpu.%d.mig.%d.id", gpu, before) == id) return 0;
    return 1;
}

EXPORT int nvmlDeviceGetGpuInstances(
    Handle device, unsigned profile, Handle *told, unsigned *count) {
    int code = gate_whole(device, __func__), gpu = gpu_of(device);
    if (code || !mig_is_on(gpu)) return code ? code : NOT_SUPPORTED;
    *count = 0;
    for (int at = 0; at < INSTANCES_MAX; at++)
        if (state_or(-1, "gpu.%d.mig.%d.profile", gpu, at) == profile && is_first(gpu, at))
            told[(*count)++] = handle_of(gpu, at);
    return SUCCESS;
}

EXPORT int nvmlDeviceGetGpuInstanceById(Handle device, unsigned id, Handle *told) {
    int code = gate_whole(device, __func__), gpu = gpu_of(device);
    for (int at = 0; at < INSTANCES_MAX && !code && mig_is_on(gpu); at++)
        if (state_or(-1, "gpu.%d.mig.%d.id", gpu, at) == id) {
            *told = handle_of(gpu, at);
            return SUCCESS;
        }
    return code ? code : NOT_FOUND;
}

struct Instance { Handle device; unsigned id, profile; struct Placement placement; };

/* The gate of a handle that must be of an instance. */
static int gate_part(Handle handle, const char *call) {
    int code = gate(handle, call);
    if (code) return code;
    int known = state_get("gpu.%d.mig.%d.id", gpu_of(handle), instance_of(handle)) != 0;
    return known && mig_is_on(gpu_of(handle)) ? SUCCESS : INVALID_ARGUMENT;
}

EXPORT int nvmlGpuInstanceGetInfo(Handle handle, struct Instance *told) {
    int code = gate_part(handle, __func__);
    if (code) return code;
    int number = profile_of(gpu_of(handle), instance_of(handle));
    unsigned size = number < 0 ? 1 : of_profile(gpu_of(handle), (unsigned)number, "size");
    *told = (struct Instance){
        handle_of(gpu_of(handle), -1), of_instance(handle, "id", 0),
        of_instance(handle, "profile", 0),
        {of_instance(handle, "start", 0), of_instance(handle, "size", size)}};
    return SUCCESS;
}

/* -- MIG devices -- */

EXPORT int nvmlDeviceGetMaxMigDeviceCount(Handle device, unsigned *told) {
    int code = gate_whole(device, __func__);
    double most = state_or(7, "gpu.%d.mig_devices_max", gpu_of(device));
    if (!code) *told = mig_is_on(gpu_of(device)) ? (unsigned)most : 0;
    return code;
}

EXPORT int nvmlDeviceGetMigDeviceHandleByIndex(Handle device, unsigned at, Handle *told) {
    int code = gate_whole(device, __func__), gpu = gpu_of(device);
    if (code) return code;
    if (at >= INSTANCES_MAX) return INVALID_ARGUMENT;
    *told = handle_of(gpu, (int)at);
    return mig_is_on(gpu) && state_get("gpu.%d.mig.%u.uuid", gpu, at) ? SUCCESS : NOT_FOUND;
}

EXPORT int nvmlDeviceGetDeviceHandleFromMigDeviceHandle(Handle handle, Handle *told) {
    int code = gate_part(handle, __func__);
    if (!code) *told = handle_of(gpu_of(handle), -1);
    return code;
}

EXPORT int nvmlDeviceIsMigDeviceHandle(Handle device, unsigned *told) {
    int code = gate(device, __func__);
    *told = instance_of(device) >= 0;
    return code;
}

EXPORT int nvmlDeviceGetGpuInstanceId(Handle handle, unsigned *told) {
    int code = gate_part(handle, __func__);
    if (!code) *told = of_instance(handle, "id", 0);
    return code;
}

EXPORT int nvmlDeviceGetComputeInstanceId(Handle handle, unsigned *told) {
    int code = gate_part(handle, __func__);
    if (!code) *told = of_instance(handle, "compute", 0);
    return code;
}

struct Attributes {
    unsigned processors, copy, decoders, encoders, jpeg, ofa, slices, compute_slices;
    Count memory_mib;
};

EXPORT int nvmlDeviceGetAttributes_v2(Handle handle, struct Attributes *told) {
    int code = gate_part(handle, __func__), gpu = gpu_of(handle);
    int number = code ? -1 : profile_of(gpu, instance_of(handle));
    if (number < 0) return code ? code : NOT_SUPPORTED;
    unsigned of = (unsigned)number, slices = of_profile(gpu, of, "slices");
    *told = (struct Attributes){
        .processors = of_instance(handle, "processors", of_profile(gpu, of, "processors")),
        .copy = of_profile(gpu, of, "copy"),
        .decoders = of_profile(gpu, of, "decoders"),
        .jpeg = of_profile(gpu, of, "jpeg"),
        .ofa = of_profile(gpu, of, "ofa"),
        .slices = slices,
        .compute_slices = of_instance(handle, "compute_slices", slices),
        .memory_mib = (Count)instance_mib(gpu, instance_of(handle))};
    return SUCCESS;
}
