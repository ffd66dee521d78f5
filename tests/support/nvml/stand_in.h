/* A stand-in of NVIDIA's NVML for tests: it answers what a file of lines `key = value` says.
 *
 * The file is named by MUSTER_NVML_STAND_IN and read again when it changes, so a test scripts
 * faults while a process runs. What is not in the file is not supported. Layouts of structures are
 * those that nvidia-ml-py declares.
 */
#ifndef MUSTER_STAND_IN_H
#define MUSTER_STAND_IN_H

enum {
    SUCCESS = 0,
    UNINITIALIZED = 1,
    INVALID_ARGUMENT = 2,
    NOT_SUPPORTED = 3,
    NOT_FOUND = 6,
    INSUFFICIENT_SIZE = 7,
    DRIVER_NOT_LOADED = 9,
    TIMEOUT = 10,
    GPU_IS_LOST = 15,
    RESET_REQUIRED = 16,
    IN_USE = 19,
    VERSION_MISMATCH = 25
};

#define ALL_ONES 0xFFFFFFFFu
#define GPUS_MAX 64
#define PROFILES_MAX 18
#define INSTANCES_MAX 16
#define POLL_US 20000
#define EXPORT __attribute__((visibility("default")))
#define LIKE_PRINTF(at) __attribute__((format(printf, at, at + 1)))

typedef unsigned long long Count;
typedef void *Handle;

/* -- state.c: the file -- */

/* Read the file again if it is another one; 0 if there is none. */
int state_refresh(void);
/* The value of a key, or 0 if there is none. */
const char *state_get(const char *format, ...) LIKE_PRINTF(1);
/* Whether the key is there; its number goes to `value`. */
int state_number(double *value, const char *format, ...) LIKE_PRINTF(2);
/* The number of a key, or `otherwise`. */
double state_or(double otherwise, const char *format, ...) LIKE_PRINTF(2);

/* -- calls.c: handles, and what every call begins with -- */

/* Handles of a GPU (instance -1), of a MIG device or of a GPU instance, and back. */
Handle handle_of(int gpu, int instance);
int gpu_of(Handle handle);
int instance_of(Handle handle);

/* Scripted delays and errors, lost devices, a driver that is gone: SUCCESS if a call may go on.
 * `call` is `__func__`. `gate_node` is for calls of no device, `gate_whole` refuses MIG devices,
 * `gate_again` is for a call that waits: without its delay. */
int gate(Handle device, const char *call);
int gate_node(const char *call);
int gate_whole(Handle device, const char *call);
int gate_again(const char *call);

/* The gate of a whole GPU, and then the number of `gpu.N.<key>`. */
int tell_uint(Handle device, const char *call, unsigned *told, const char *key, ...)
    LIKE_PRINTF(4);
int tell_count(Handle device, const char *call, Count *told, const char *key, ...)
    LIKE_PRINTF(4);
/* The text if it is there and there is room for it. */
int tell_text(char *told, unsigned length, const char *text);

/* -- mig.c -- */

int mig_is_on(int gpu);
/* Name of the profile of an instance, 0 if it is unknown. */
const char *profile_name(int gpu, int instance);
/* Memory of an instance: its own `memory_mib`, else that of its profile. */
double instance_mib(int gpu, int instance);

#endif
