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
    IN_USE = 19
};

#define ALL_ONES 0xFFFFFFFFu
#define WHOLE_NODE -1
#define EXPORT __attribute__((visibility("default")))

typedef void *Handle;

/* The value of a key, or 0 if there is none; the text lives until the next call of `state_get`. */
const char *state_get(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Whether the key is there; its number goes to `value`. */
int state_number(double *value, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The number of a key, or `otherwise`. */
double state_or(double otherwise, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Handles: of a GPU, of a MIG device, and back. */
Handle handle_of(int gpu, int instance);
int gpu_of(Handle handle);
int instance_of(Handle handle);

/* What every call begins with: scripted delays and errors, lost devices, a driver that is gone.
 * SUCCESS if the call may go on. */
int gate(int gpu, const char *call);
/* One number of a GPU, as unsigned int. */
int tell_uint(Handle device, const char *call, const char *key, unsigned *told);
int tell_text(Handle device, const char *call, const char *key, char *told, unsigned length);

#endif
