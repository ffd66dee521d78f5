/* GPM: `gpu.N.gpm.M`, of an instance `gpu.N.mig.I.gpm.M`, as they are at the second sample.
 *
 * `gpu.N.gpm = 0` says that there is none. Two samples must be of one device and in their order.
 */
#include "stand_in.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define METRICS_MAX 477

struct Sample { Handle of; unsigned long taken; double values[METRICS_MAX]; };
struct Metric { unsigned id, code; double value; const char *names[3]; };
struct Metrics { unsigned version, count; struct Sample *one, *other; struct Metric told[]; };
struct Support { unsigned version, is_supported; };

EXPORT int nvmlGpmQueryDeviceSupport(Handle device, struct Support *told) {
    if (told->version != 1) return VERSION_MISMATCH;
    return tell_uint(device, __func__, &told->is_supported, "gpm");
}

EXPORT int nvmlGpmSampleAlloc(struct Sample **told) {
    int code = gate_node(__func__);
    if (!code) *told = calloc(1, sizeof **told);
    return code;
}

EXPORT int nvmlGpmSampleFree(struct Sample *sample) {
    free(sample);
    return gate_node(__func__);
}

static void take(Handle of, struct Sample *sample) {
    static unsigned long taken;
    char where[24] = "";
    if (instance_of(of) >= 0) snprintf(where, sizeof where, "mig.%d.", instance_of(of));
    for (int at = 0; at < METRICS_MAX; at++)
        sample->values[at] = state_or(NAN, "gpu.%d.%sgpm.%d", gpu_of(of), where, at);
    sample->of = of;
    sample->taken = __atomic_add_fetch(&taken, 1, __ATOMIC_RELAXED);
}

EXPORT int nvmlGpmSampleGet(Handle device, struct Sample *sample) {
    int code = gate_whole(device, __func__);
    if (code || !state_or(0, "gpu.%d.gpm", gpu_of(device))) return code ? code : NOT_SUPPORTED;
    take(device, sample);
    return SUCCESS;
}

EXPORT int nvmlGpmMigSampleGet(Handle device, unsigned id, struct Sample *sample) {
    int code = gate_whole(device, __func__), gpu = gpu_of(device);
    if (code || !state_or(0, "gpu.%d.gpm", gpu)) return code ? code : NOT_SUPPORTED;
    for (int at = 0; at < INSTANCES_MAX && mig_is_on(gpu); at++)
        if (state_or(-1, "gpu.%d.mig.%d.id", gpu, at) == id) {
            take(handle_of(gpu, at), sample);
            return SUCCESS;
        }
    return INVALID_ARGUMENT;
}

static void tell_metric(const struct Sample *sample, struct Metric *told) {
    double value = told->id < METRICS_MAX ? sample->values[told->id] : NAN;
    told->code = isnan(value) ? NOT_SUPPORTED : SUCCESS;
    told->value = isnan(value) ? 0 : value;
}

EXPORT int nvmlGpmMetricsGet(struct Metrics *asked) {
    const struct Sample *one = asked->one, *other = asked->other;
    if (asked->version != 1) return VERSION_MISMATCH;
    int code = gate_node(__func__);
    if (code) return code;
    if (!one || !other || !one->taken || one->of != other->of || one->taken >= other->taken)
        return INVALID_ARGUMENT;
    for (unsigned at = 0; at < asked->count; at++) tell_metric(other, &asked->told[at]);
    return SUCCESS;
}
