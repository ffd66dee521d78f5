/* The file of the stand-in: its lines, scripted faults, and handles. */
#include "stand_in.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define LINES_MAX 8192
#define KEY_MAX 128

static struct {
    char *text;
    char *keys[LINES_MAX], *values[LINES_MAX];
    int count;
    ino_t inode;
    struct timespec changed;
} state;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int initialised;

static char *trimmed(char *text) {
    while (*text == ' ') text++;
    char *end = text + strlen(text);
    while (end > text && (end[-1] == ' ' || end[-1] == '\n')) *--end = 0;
    return text;
}

static void parse(char *text) {
    char *rest = 0;
    state.count = 0;
    for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(0, "\n", &rest)) {
        char *equals = strchr(line, '=');
        if (!equals || state.count == LINES_MAX) continue;
        *equals = 0;
        state.keys[state.count] = trimmed(line);
        state.values[state.count++] = trimmed(equals + 1);
    }
}

/* Texts that were given out stay readable: they are not freed, the process of a test is short. */
static void load(void) {
    const char *path = getenv("MUSTER_NVML_STAND_IN");
    struct stat now;
    if (!path || stat(path, &now)) return;
    if (now.st_ino == state.inode && !memcmp(&now.st_mtim, &state.changed, sizeof now.st_mtim))
        return;
    FILE *file = fopen(path, "r");
    if (!file) return;
    char *text = calloc(1, now.st_size + 1);
    if (fread(text, 1, now.st_size, file) == (size_t)now.st_size) {
        parse(text);
        state.text = text;
        state.inode = now.st_ino;
        state.changed = now.st_mtim;
    }
    fclose(file);
}

static const char *look_up(const char *key) {
    pthread_mutex_lock(&lock);
    load();
    const char *found = 0;
    for (int at = 0; at < state.count && !found; at++)
        if (!strcmp(state.keys[at], key)) found = state.values[at];
    pthread_mutex_unlock(&lock);
    return found;
}

#define KEY_FROM(format)                        \
    char key[KEY_MAX];                          \
    va_list rest;                               \
    va_start(rest, format);                     \
    vsnprintf(key, sizeof key, format, rest);   \
    va_end(rest)

const char *state_get(const char *format, ...) {
    KEY_FROM(format);
    return look_up(key);
}

int state_number(double *value, const char *format, ...) {
    KEY_FROM(format);
    const char *text = look_up(key);
    if (text) *value = atof(text);
    return text != 0;
}

double state_or(double otherwise, const char *format, ...) {
    KEY_FROM(format);
    const char *text = look_up(key);
    return text ? atof(text) : otherwise;
}

Handle handle_of(int gpu, int instance) {
    return (Handle)(size_t)(1 + gpu + 1000 * (instance + 1));
}

int gpu_of(Handle handle) { return (int)(((size_t)handle - 1) % 1000); }

int instance_of(Handle handle) { return (int)(((size_t)handle - 1) / 1000) - 1; }

static void obstruct(const char *where, const char *call) {
    double wait_ms;
    if (state_number(&wait_ms, "%sslow_ms.%s", where, call)) usleep((useconds_t)(wait_ms * 1000));
    while (state_or(0, "%shang.%s", where, call)) usleep(20000);
}

int gate(int gpu, const char *call) {
    char where[32] = "";
    double code;
    if (state_or(0, "driver_gone")) initialised = 0;
    if (gpu != WHOLE_NODE) snprintf(where, sizeof where, "gpu.%d.", gpu);
    obstruct("", call);
    if (*where) obstruct(where, call);
    if (!initialised) return UNINITIALIZED;
    if (state_number(&code, "error.%s", call)) return (int)code;
    if (!*where) return SUCCESS;
    if (state_or(0, "%slost", where)) return GPU_IS_LOST;
    if (state_number(&code, "%serror.%s", where, call)) return (int)code;
    return SUCCESS;
}

int tell_uint(Handle device, const char *call, const char *key, unsigned *told) {
    double value;
    int code = gate(gpu_of(device), call);
    if (code) return code;
    if (!state_number(&value, "gpu.%d.%s", gpu_of(device), key)) return NOT_SUPPORTED;
    *told = (unsigned)value;
    return SUCCESS;
}

int tell_text(Handle device, const char *call, const char *key, char *told, unsigned length) {
    int code = gate(gpu_of(device), call);
    if (code) return code;
    const char *value = state_get("gpu.%d.%s", gpu_of(device), key);
    if (!value) return NOT_SUPPORTED;
    snprintf(told, length, "%s", value);
    return SUCCESS;
}

EXPORT int nvmlInitWithFlags(unsigned flags) {
    (void)flags;
    obstruct("", "nvmlInitWithFlags");
    if (state_or(0, "driver_gone")) return DRIVER_NOT_LOADED;
    initialised = 1;
    return gate(WHOLE_NODE, "nvmlInitWithFlags");
}

EXPORT int nvmlShutdown(void) { return SUCCESS; }

EXPORT const char *nvmlErrorString(int code) {
    static _Thread_local char text[32];
    snprintf(text, sizeof text, "error %d", code);
    return text;
}
