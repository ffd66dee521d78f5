/* Links and fabric, MIG, GPM and events. */
#include "stand_in.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef unsigned long long Count;

/* -- links: `gpu.N.links` of them to a switch -- */

EXPORT int nvmlDeviceGetNvLinkState(Handle device, unsigned link, unsigned *told) {
    unsigned links = 0;
    int code = tell_uint(device, "nvmlDeviceGetNvLinkState", "links", &links);
    *told = link < links;
    return !code && link >= links ? INVALID_ARGUMENT : code;
}

EXPORT int nvmlDeviceGetNvLinkRemoteDeviceType(Handle device, unsigned link, unsigned *told) {
    (void)link;
    *told = 2;
    return gate(gpu_of(device), "nvmlDeviceGetNvLinkRemoteDeviceType");
}

EXPORT int nvmlDeviceGetNvLinkRemotePciInfo_v2(Handle device, unsigned link, char *told) {
    (void)link;
    snprintf(told + 36, 32, "00000000:F0:00.0");
    return gate(gpu_of(device), "nvmlDeviceGetNvLinkRemotePciInfo_v2");
}

EXPORT int nvmlDeviceGetTopologyCommonAncestor(Handle one, Handle other, unsigned *told) {
    (void)other;
    return tell_uint(one, "nvmlDeviceGetTopologyCommonAncestor", "ancestor", told);
}

EXPORT int nvmlDeviceGetMemoryAffinity(
    Handle device, unsigned words, unsigned long *told, unsigned scope) {
    double numa;
    (void)scope;
    int code = gate(gpu_of(device), "nvmlDeviceGetMemoryAffinity");
    memset(told, 0, words * sizeof *told);
    if (!state_number(&numa, "gpu.%d.numa", gpu_of(device))) return code ? code : NOT_SUPPORTED;
    told[(int)numa / 64] = 1ul << ((int)numa % 64);
    return code;
}

struct Fabric { unsigned version; unsigned char cluster[16]; unsigned status, clique, state, health; };

EXPORT int nvmlDeviceGetGpuFabricInfoV(Handle device, struct Fabric *told) {
    double clique;
    int code = gate(gpu_of(device), "nvmlDeviceGetGpuFabricInfoV");
    if (!state_number(&clique, "clique")) return code ? code : NOT_SUPPORTED;
    memset(told->cluster, 0xAB, sizeof told->cluster);
    told->clique = (unsigned)clique;
    told->state = 3;
    return code;
}

/* -- MIG: profiles `gpu.N.profile.I.*`, instances `gpu.N.mig.I.*` -- */

EXPORT int nvmlDeviceGetMigMode(Handle device, unsigned *now, unsigned *pending) {
    int code = tell_uint(device, "nvmlDeviceGetMigMode", "mig_mode", now);
    const char *changed = state_get("mig_file");
    char path[512];
    if (!code && changed) {
        snprintf(path, sizeof path, "%s.%d", changed, gpu_of(device));
        FILE *file = fopen(path, "r");
        if (file && fscanf(file, "%u", now) != 1) *now = 0;
        if (file) fclose(file);
    }
    *pending = *now;
    return code;
}

EXPORT int nvmlDeviceSetMigMode(Handle device, unsigned mode, unsigned *status) {
    int code = gate(gpu_of(device), "nvmlDeviceSetMigMode");
    char path[512];
    *status = 0;
    if (code) return code;
    if (state_or(0, "gpu.%d.processes", gpu_of(device))) return IN_USE;
    snprintf(path, sizeof path, "%s.%d", state_get("mig_file"), gpu_of(device));
    FILE *file = fopen(path, "w");
    if (!file) return NOT_SUPPORTED;
    fprintf(file, "%u", mode);
    fclose(file);
    return SUCCESS;
}

struct Profile {
    unsigned version, id, p2p, slices, instances, processors, copy, decoders, encoders, jpeg, ofa;
    Count memory;
    char name[96];
};

EXPORT int nvmlDeviceGetGpuInstanceProfileInfoV(Handle device, unsigned at, struct Profile *told) {
    int code = gate(gpu_of(device), "nvmlDeviceGetGpuInstanceProfileInfoV");
    const char *name = state_get("gpu.%d.profile.%u.name", gpu_of(device), at);
    if (code || !name) return code ? code : NOT_SUPPORTED;
    snprintf(told->name, sizeof told->name, "MIG %s", name);
    told->id = (unsigned)state_or(0, "gpu.%d.profile.%u.id", gpu_of(device), at);
    told->slices = (unsigned)state_or(0, "gpu.%d.profile.%u.slices", gpu_of(device), at);
    return SUCCESS;
}

struct Placement { unsigned start, size; };

/* Starts are written as "0 2 4". */
EXPORT int nvmlDeviceGetGpuInstancePossiblePlacements_v2(
    Handle device, unsigned id, struct Placement *told, unsigned *count) {
    int code = gate(gpu_of(device), "nvmlDeviceGetGpuInstancePossiblePlacements_v2");
    *count = 0;
    for (unsigned at = 0; at < 16 && !code; at++) {
        double known;
        if (!state_number(&known, "gpu.%d.profile.%u.id", gpu_of(device), at) || known != id)
            continue;
        unsigned size = (unsigned)state_or(1, "gpu.%d.profile.%u.size", gpu_of(device), at);
        const char *starts = state_get("gpu.%d.profile.%u.starts", gpu_of(device), at);
        for (int used; starts && sscanf(starts, "%u%n", &told[*count].start, &used) == 1;
             starts += used)
            told[(*count)++].size = size;
    }
    return code;
}

EXPORT int nvmlDeviceGetGpuInstances(
    Handle device, unsigned profile, Handle *told, unsigned *count) {
    int code = gate(gpu_of(device), "nvmlDeviceGetGpuInstances");
    *count = 0;
    for (int at = 0; at < 8 && !code; at++)
        if (state_or(-1, "gpu.%d.mig.%d.profile", gpu_of(device), at) == profile)
            told[(*count)++] = handle_of(gpu_of(device), at);
    return code;
}

struct Instance { Handle device; unsigned id, profile; struct Placement placement; };

static double of_instance(Handle handle, const char *key) {
    return state_or(0, "gpu.%d.mig.%d.%s", gpu_of(handle), instance_of(handle), key);
}

EXPORT int nvmlGpuInstanceGetInfo(Handle handle, struct Instance *told) {
    told->device = handle_of(gpu_of(handle), -1);
    told->id = (unsigned)of_instance(handle, "id");
    told->profile = (unsigned)of_instance(handle, "profile");
    told->placement.start = (unsigned)of_instance(handle, "start");
    told->placement.size = (unsigned)of_instance(handle, "size");
    return gate(gpu_of(handle), "nvmlGpuInstanceGetInfo");
}

EXPORT int nvmlDeviceGetMigDeviceHandleByIndex(Handle device, unsigned at, Handle *told) {
    int code = gate(gpu_of(device), "nvmlDeviceGetMigDeviceHandleByIndex");
    *told = handle_of(gpu_of(device), (int)at);
    if (!code && !state_get("gpu.%d.mig.%u.uuid", gpu_of(device), at)) return NOT_FOUND;
    return code;
}

EXPORT int nvmlDeviceGetGpuInstanceId(Handle device, unsigned *told) {
    *told = (unsigned)of_instance(device, "id");
    return gate(gpu_of(device), "nvmlDeviceGetGpuInstanceId");
}

/* -- GPM: `gpu.N.gpm.M`, of an instance `gpu.N.mig.I.gpm.M` -- */

struct Sample { int gpu, instance; };
struct Metric { unsigned id, code; double value; const char *names[3]; };
struct Metrics { unsigned version, count; struct Sample *one, *other; struct Metric told[]; };

EXPORT int nvmlGpmQueryDeviceSupport(Handle device, unsigned told[2]) {
    return tell_uint(device, "nvmlGpmQueryDeviceSupport", "gpm", &told[1]);
}

EXPORT int nvmlGpmSampleAlloc(struct Sample **told) {
    *told = calloc(1, sizeof **told);
    return SUCCESS;
}

EXPORT int nvmlGpmSampleFree(struct Sample *sample) {
    free(sample);
    return SUCCESS;
}

EXPORT int nvmlGpmSampleGet(Handle device, struct Sample *sample) {
    *sample = (struct Sample){gpu_of(device), -1};
    return gate(gpu_of(device), "nvmlGpmSampleGet");
}

EXPORT int nvmlGpmMigSampleGet(Handle device, unsigned id, struct Sample *sample) {
    *sample = (struct Sample){gpu_of(device), -1};
    for (int at = 0; at < 8; at++)
        if (state_or(-1, "gpu.%d.mig.%d.id", gpu_of(device), at) == id) sample->instance = at;
    return gate(gpu_of(device), "nvmlGpmMigSampleGet");
}

EXPORT int nvmlGpmMetricsGet(struct Metrics *asked) {
    const struct Sample *of = asked->other;
    for (unsigned at = 0; at < asked->count; at++) {
        struct Metric *told = &asked->told[at];
        char where[48] = "";
        if (of->instance >= 0) snprintf(where, sizeof where, "mig.%d.", of->instance);
        told->code = state_number(&told->value, "gpu.%d.%sgpm.%u", of->gpu, where, told->id)
                         ? SUCCESS : NOT_SUPPORTED;
    }
    return gate(of->gpu, "nvmlGpmMetricsGet");
}

/* -- events: `event.0 = GPU TYPE DATA INSTANCE`, each given out once by each set -- */

struct Set { unsigned next; Count types[64]; };
struct Event { Handle device; Count type, data; unsigned instance, compute; };

EXPORT int nvmlEventSetCreate(struct Set **told) {
    *told = calloc(1, sizeof **told);
    return gate(WHOLE_NODE, "nvmlEventSetCreate");
}

EXPORT int nvmlEventSetFree(struct Set *set) {
    free(set);
    return SUCCESS;
}

EXPORT int nvmlDeviceGetSupportedEventTypes(Handle device, Count *told) {
    unsigned types = 0;
    int code = tell_uint(device, "nvmlDeviceGetSupportedEventTypes", "event_types", &types);
    *told = types;
    return code;
}

EXPORT int nvmlDeviceRegisterEvents(Handle device, Count types, struct Set *set) {
    set->types[gpu_of(device)] = types;
    return gate(gpu_of(device), "nvmlDeviceRegisterEvents");
}

static int next_event(struct Set *set, struct Event *told) {
    const char *line;
    while ((line = state_get("event.%u", set->next))) {
        int gpu, instance;
        set->next++;
        if (sscanf(line, "%d %llu %llu %d", &gpu, &told->type, &told->data, &instance) != 4 ||
            !(set->types[gpu] & told->type))
            continue;
        told->device = handle_of(gpu, -1);
        told->instance = told->compute = (unsigned)instance;
        return 1;
    }
    return 0;
}

EXPORT int nvmlEventSetWait_v2(struct Set *set, struct Event *told, unsigned wait_ms) {
    for (unsigned waited_ms = 0;; waited_ms += 20) {
        int code = gate(WHOLE_NODE, "nvmlEventSetWait_v2");
        if (code) return code;
        if (next_event(set, told)) return SUCCESS;
        if (waited_ms >= wait_ms) return TIMEOUT;
        usleep(20000);
    }
}
