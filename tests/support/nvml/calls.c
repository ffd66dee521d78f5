/* What every call begins with (scripted faults), handles, and the life of the library.
 *
 * Faults: `gpu.N.lost`, `[gpu.N.]error.CALL = code`, `[gpu.N.]hang.CALL` (until it is taken away),
 * `[gpu.N.]slow_ms.CALL`, `driver_gone` (its number is the code, 1 or 9), and `driver_epoch`:
 * another number than at Init is another driver, so all is uninitialised until the next Init.
 */
#include "stand_in.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define KEY_MAX 128
#define OF_INSTANCE 1000

static struct { int uses; double epoch; } driver;

/* -- handles -- */

Handle handle_of(int gpu, int instance) {
    return (Handle)(size_t)(1 + gpu + OF_INSTANCE * (instance + 1));
}

int gpu_of(Handle handle) { return (int)(((size_t)handle - 1) % OF_INSTANCE); }

int instance_of(Handle handle) { return (int)(((size_t)handle - 1) / OF_INSTANCE) - 1; }

static int is_known(Handle handle) {
    return handle && (size_t)handle <= OF_INSTANCE * (INSTANCES_MAX + 1) &&
           gpu_of(handle) < state_or(0, "count");
}

/* -- faults -- */

static const char *where(int gpu, char text[16]) {
    snprintf(text, 16, gpu < 0 ? "" : "gpu.%d.", gpu);
    return text;
}

static void delay(int gpu, const char *call) {
    char of[16];
    double wait_ms = state_or(0, "%sslow_ms.%s", where(gpu, of), call);
    if (wait_ms > 0) usleep((useconds_t)(wait_ms * 1000));
}

static void hang(int gpu, const char *call) {
    char of[16];
    while (state_or(0, "%shang.%s", where(gpu, of), call)) {
        usleep(POLL_US);
        state_refresh();
    }
}

static void obstruct(int gpu, const char *call) {
    state_refresh();
    delay(gpu, call);
    hang(gpu, call);
}

static int fault(int gpu, const char *call) {
    char of[16];
    return (int)state_or(SUCCESS, "%serror.%s", where(gpu, of), call);
}

static int driver_fault(const char *call) {
    double gone = state_or(0, "driver_gone");
    if (gone || state_or(0, "driver_epoch") != driver.epoch) driver.uses = 0;
    if (gone == DRIVER_NOT_LOADED) return DRIVER_NOT_LOADED;
    return driver.uses ? fault(-1, call) : UNINITIALIZED;
}

int gate_node(const char *call) {
    obstruct(-1, call);
    return driver_fault(call);
}

int gate_again(const char *call) {
    state_refresh();
    hang(-1, call);
    return driver_fault(call);
}

int gate(Handle device, const char *call) {
    int code = gate_node(call);
    if (code) return code;
    if (!is_known(device)) return INVALID_ARGUMENT;
    obstruct(gpu_of(device), call);
    if (state_or(0, "gpu.%d.lost", gpu_of(device))) return GPU_IS_LOST;
    return fault(gpu_of(device), call);
}

int gate_whole(Handle device, const char *call) {
    int code = gate(device, call);
    return !code && instance_of(device) >= 0 ? NOT_SUPPORTED : code;
}

/* -- values -- */

static int tell(Handle device, const char *call, double *told, const char *key, va_list rest) {
    char full[KEY_MAX];
    int code = gate_whole(device, call);
    vsnprintf(full, sizeof full, key, rest);
    if (code) return code;
    return state_number(told, "gpu.%d.%s", gpu_of(device), full) ? SUCCESS : NOT_SUPPORTED;
}

int tell_uint(Handle device, const char *call, unsigned *told, const char *key, ...) {
    double value = 0;
    va_list rest;
    va_start(rest, key);
    int code = tell(device, call, &value, key, rest);
    va_end(rest);
    if (!code) *told = (unsigned)(long long)value;
    return code;
}

int tell_count(Handle device, const char *call, Count *told, const char *key, ...) {
    double value = 0;
    va_list rest;
    va_start(rest, key);
    int code = tell(device, call, &value, key, rest);
    va_end(rest);
    if (!code) *told = (Count)value;
    return code;
}

int tell_text(char *told, unsigned length, const char *text) {
    if (!text) return NOT_SUPPORTED;
    if (strlen(text) >= length) return INSUFFICIENT_SIZE;
    strcpy(told, text);
    return SUCCESS;
}

/* -- the life of the library -- */

EXPORT int nvmlInitWithFlags(unsigned flags) {
    (void)flags;
    obstruct(-1, __func__);
    if (!state_refresh() || state_or(0, "driver_gone")) return DRIVER_NOT_LOADED;
    int code = fault(-1, __func__);
    if (code) return code;
    driver.epoch = state_or(0, "driver_epoch");
    driver.uses++;
    return SUCCESS;
}

EXPORT int nvmlInit_v2(void) { return nvmlInitWithFlags(0); }

EXPORT int nvmlShutdown(void) {
    int code = gate_node(__func__);
    if (!code) driver.uses--;
    return code;
}

EXPORT const char *nvmlErrorString(int code) {
    static const char *const texts[] = {
        "Success", "Uninitialized", "Invalid Argument", "Not Supported",
        "Insufficient Permissions", "Already Initialized", "Not Found", "Insufficient Size",
        "Insufficient External Power", "Driver Not Loaded", "Timeout", "Interrupt Request Issue",
        "NVML Shared Library Not Found", "Function Not Found", "Corrupted infoROM", "GPU is lost",
        "GPU requires reset", "Operating system call failed",
        "Driver/library version mismatch", "In use by another client"};
    int known = code >= 0 && code < (int)(sizeof texts / sizeof *texts);
    return known ? texts[code] : "Unknown Error";
}
