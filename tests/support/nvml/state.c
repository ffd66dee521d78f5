/* The file of the stand-in, as sorted lines. */
#include "stand_in.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define KEY_MAX 128

struct Line { char *key, *value; };
/* Never freed: what was given out stays readable, and the process of a test is short. */
struct State { size_t count; struct Line lines[]; };

static const struct State *current;
static struct stat seen;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static char *trimmed(char *text) {
    while (*text == ' ') text++;
    char *end = text + strlen(text);
    while (end > text && end[-1] == ' ') *--end = 0;
    return text;
}

static int by_key(const void *one, const void *other) {
    return strcmp(((const struct Line *)one)->key, ((const struct Line *)other)->key);
}

static struct State *parsed(char *text) {
    size_t room = 1;
    for (const char *at = text; *at; at++) room += *at == '\n';
    struct State *state = calloc(1, sizeof *state + room * sizeof(struct Line));
    char *rest = 0;
    for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(0, "\n", &rest)) {
        char *equals = strchr(line, '=');
        if (!equals) continue;
        *equals = 0;
        state->lines[state->count++] = (struct Line){trimmed(line), trimmed(equals + 1)};
    }
    qsort(state->lines, state->count, sizeof(struct Line), by_key);
    return state;
}

static int is_seen(const struct stat *now) {
    return now->st_ino == seen.st_ino && now->st_size == seen.st_size &&
           !memcmp(&now->st_mtim, &seen.st_mtim, sizeof now->st_mtim);
}

static int load(void) {
    const char *path = getenv("MUSTER_NVML_STAND_IN");
    struct stat now;
    if (!path || stat(path, &now)) return 0;
    if (is_seen(&now)) return 1;
    FILE *file = fopen(path, "r");
    if (!file) return 0;
    if (!fstat(fileno(file), &now)) {
        char *text = calloc(1, (size_t)now.st_size + 1);
        if (fread(text, 1, (size_t)now.st_size, file) == (size_t)now.st_size) {
            __atomic_store_n(&current, parsed(text), __ATOMIC_RELEASE);
            seen = now;
        }
    }
    fclose(file);
    return 1;
}

int state_refresh(void) {
    pthread_mutex_lock(&lock);
    int found = load();
    pthread_mutex_unlock(&lock);
    return found;
}

static const char *look_up(const char *format, va_list rest) {
    char key[KEY_MAX];
    vsnprintf(key, sizeof key, format, rest);
    const struct State *state = __atomic_load_n(&current, __ATOMIC_ACQUIRE);
    const struct Line asked = {key, 0};
    if (!state) return 0;
    const struct Line *found =
        bsearch(&asked, state->lines, state->count, sizeof asked, by_key);
    return found ? found->value : 0;
}

const char *state_get(const char *format, ...) {
    va_list rest;
    va_start(rest, format);
    const char *text = look_up(format, rest);
    va_end(rest);
    return text;
}

int state_number(double *value, const char *format, ...) {
    va_list rest;
    va_start(rest, format);
    const char *text = look_up(format, rest);
    va_end(rest);
    if (text) *value = strtod(text, 0);
    return text != 0;
}

double state_or(double otherwise, const char *format, ...) {
    va_list rest;
    va_start(rest, format);
    const char *text = look_up(format, rest);
    va_end(rest);
    return text ? strtod(text, 0) : otherwise;
}
