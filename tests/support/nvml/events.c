/* Events: `event.0 = GPU TYPE DATA [INSTANCE [COMPUTE]]`, each given out once by each set.
 *
 * A new set is given old events, too, so that a test need not know when a process registers; with
 * `events_from_now`, as the driver does, only those after a GPU was registered.
 */
#include "stand_in.h"

#include <stdlib.h>
#include <time.h>
#include <unistd.h>

struct Set { unsigned next, from[GPUS_MAX]; Count types[GPUS_MAX]; };
struct Event { Handle device; Count type, data; unsigned instance, compute; };

EXPORT int nvmlEventSetCreate(struct Set **told) {
    int code = gate_node(__func__);
    if (!code) *told = calloc(1, sizeof **told);
    return code;
}

EXPORT int nvmlEventSetFree(struct Set *set) {
    free(set);
    return gate_node(__func__);
}

EXPORT int nvmlDeviceGetSupportedEventTypes(Handle device, Count *told) {
    return tell_count(device, __func__, told, "event_types");
}

EXPORT int nvmlDeviceRegisterEvents(Handle device, Count types, struct Set *set) {
    Count known;
    int code = tell_count(device, __func__, &known, "event_types"), gpu = gpu_of(device);
    if (code || types & ~known) return code ? code : NOT_SUPPORTED;
    if (gpu >= GPUS_MAX) return INVALID_ARGUMENT;
    set->types[gpu] |= types;
    if (state_or(0, "events_from_now"))
        while (state_get("event.%u", set->from[gpu])) set->from[gpu]++;
    return SUCCESS;
}

static long long part(const char **text, long long otherwise) {
    char *end;
    while (**text == ',' || **text == ' ') ++*text;
    long long number = strtoll(*text, &end, 0);
    if (end == *text) return otherwise;
    *text = end;
    return number;
}

static int parse(const char *line, struct Event *told) {
    int gpu = (int)part(&line, -1);
    told->type = (Count)part(&line, 0);
    told->data = (Count)part(&line, 0);
    told->instance = (unsigned)part(&line, -1);
    told->compute = (unsigned)part(&line, -1);
    told->device = handle_of(gpu, -1);
    return gpu >= 0 && gpu < GPUS_MAX ? gpu : -1;
}

static int next_event(struct Set *set, struct Event *told) {
    const char *line;
    while ((line = state_get("event.%u", set->next))) {
        unsigned number = set->next++;
        int gpu = parse(line, told);
        if (gpu >= 0 && set->types[gpu] & told->type && number >= set->from[gpu]) return 1;
    }
    return 0;
}

static long long now_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000ll + now.tv_nsec / 1000000;
}

EXPORT int nvmlEventSetWait_v2(struct Set *set, struct Event *told, unsigned wait_ms) {
    long long until = now_ms() + wait_ms;
    int code = gate_node(__func__);
    while (!code && !next_event(set, told)) {
        if (now_ms() >= until) return TIMEOUT;
        usleep(POLL_US);
        code = gate_again(__func__);
    }
    return code;
}
