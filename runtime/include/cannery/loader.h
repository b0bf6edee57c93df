/* SPDX-License-Identifier: MIT-0
 *
 * Opens the shared library of a network at run time, and checks that it is the network a program was
 * built for before any code of it runs. <name>_loader.h calls this; programs need nothing of it.
 * Programs on Linux with a C library older than glibc 2.34 link with -ldl.
 */
#ifndef CANNERY_LOADER_H
#define CANNERY_LOADER_H

#include "cannery/cannery.h"
#include "cannery/library.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#ifdef _WIN32
#include <windows.h>
#else
#include <dlfcn.h>
#endif
#if defined(__linux__) && (defined(__arm__) || defined(__aarch64__) || defined(__riscv))
#include <sys/auxv.h>
#endif

/* A conversion that neither C nor C++ warns of; as in cannery/parallel.h. */
#ifndef CANNERY_CAST
#ifdef __cplusplus
#define CANNERY_CAST(type, value) static_cast<type>(value)
#else
#define CANNERY_CAST(type, value) ((type)(value))
#endif
#endif

/* What <name>_library_open returns. */
enum {
    CANNERY_LOADED = 0,
    CANNERY_LOAD_FILE = 1,      /* no library of this system and processor */
    CANNERY_LOAD_FOREIGN = 2,   /* a library, but not of this network */
    CANNERY_LOAD_VERSION = 3,   /* made by a Cannery whose libraries this loader does not know */
    CANNERY_LOAD_PROCESSOR = 4, /* made for instructions that this processor does not have */
    CANNERY_LOAD_INTERFACE = 5  /* the network, with other tensors, sizes or functions */
};

/* What is wrong, as one line, in memory of the caller; size 0: nowhere. */
typedef struct cannery_load_error {
    char *text;
    size_t size;
} cannery_load_error;

#if defined(__GNUC__)
__attribute__((format(printf, 3, 4)))
#endif
static inline int
cannery_load_fails(cannery_load_error error, int code, const char *format, ...)
{
    if (error.text && error.size) {
        va_list arguments;
        va_start(arguments, format);
        vsnprintf(error.text, error.size, format, arguments);
        va_end(arguments);
        for (char *c = error.text; *c; ++c) {
            if (*c == '\n' || *c == '\r') {
                *c = ' ';
            }
        }
    }
    return code;
}

/* Opens a library. It cannot be seen by others, and every symbol that it needs must be there. */
static inline void *cannery_open_file(const char *path, cannery_load_error error)
{
#ifdef _WIN32
    HMODULE handle = LoadLibraryA(path);
    if (!handle) {
        cannery_load_fails(error, 0, "%s: cannot be opened (error %lu of Windows); give a library "
                           "for this system and processor", path, CANNERY_CAST(unsigned long, GetLastError()));
    }
    return (void *)handle;
#else
    void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!handle) {
        const char *reason = dlerror();
        cannery_load_fails(error, 0, "%s: cannot be opened (%s); give a library for this system and "
                           "processor", path, reason ? reason : "no reason given");
    }
    return handle;
#endif
}

static inline void cannery_close_file(void *handle)
{
    if (handle) {
#ifdef _WIN32
        FreeLibrary((HMODULE)handle);
#else
        dlclose(handle);
#endif
    }
}

/* The address that a symbol names, of data or a function; NULL if there is none. */
static inline void *cannery_find(void *handle, const char *symbol)
{
#ifdef _WIN32
    void *address;
    FARPROC found = GetProcAddress((HMODULE)handle, symbol);
    memcpy(&address, &found, sizeof(address));
    return address;
#else
    return dlsym(handle, symbol);
#endif
}

/* What a library says of itself, the symbol <name>_about. */
static inline const cannery_library *cannery_find_library(void *handle, const char *symbol)
{
    const cannery_library *about;
    void *const address = cannery_find(handle, symbol);
    memcpy(&about, &address, sizeof(about));
    return about;
}

/* Sets a pointer to a function, which is at `pointer`; whether the library has that function. */
static inline int cannery_take_function(void *handle, const char *symbol, void *pointer, const char *path,
                                        cannery_load_error error)
{
    void *const address = cannery_find(handle, symbol);
    memcpy(pointer, &address, sizeof(address));
    if (!address) {
        cannery_load_fails(error, 0, "%s: the function %s is missing; build the library again with SHARED",
                           path, symbol);
    }
    return address != NULL;
}

/* Whether this processor, and its operating system, has what a word of `needs` names. */
static inline int cannery_has(const char *word, size_t length)
{
#define CANNERY_WORD(text) (length == sizeof(text) - 1u && memcmp(word, text, length) == 0)
#if defined(__GNUC__) && (defined(__x86_64__) || defined(__i386__))
#define CANNERY_ASK(name) \
    if (CANNERY_WORD(name)) { \
        return __builtin_cpu_supports(name) != 0; \
    }
    __builtin_cpu_init();
    CANNERY_ASK("sse2")
    CANNERY_ASK("sse3")
    CANNERY_ASK("ssse3")
    CANNERY_ASK("sse4.1")
    CANNERY_ASK("sse4.2")
    CANNERY_ASK("popcnt")
    CANNERY_ASK("avx")
    CANNERY_ASK("fma")
    CANNERY_ASK("avx2")
    CANNERY_ASK("bmi")
    CANNERY_ASK("bmi2")
    CANNERY_ASK("avx512f")
    CANNERY_ASK("avx512vl")
    CANNERY_ASK("avx512bw")
    CANNERY_ASK("avx512dq")
    CANNERY_ASK("avx512vnni")
#undef CANNERY_ASK
    return 0;
#elif defined(__linux__) && defined(__aarch64__)
    const unsigned long has = getauxval(AT_HWCAP);
    return (CANNERY_WORD("asimd") && has & 1ul << 1) || (CANNERY_WORD("asimdhp") && has & 1ul << 10) ||
           (CANNERY_WORD("asimddp") && has & 1ul << 20) || (CANNERY_WORD("sve") && has & 1ul << 22) ||
           (CANNERY_WORD("i8mm") && getauxval(AT_HWCAP2) & 1ul << 13) ||
           (CANNERY_WORD("bf16") && getauxval(AT_HWCAP2) & 1ul << 14);
#elif defined(__linux__) && defined(__arm__)
    const unsigned long has = getauxval(AT_HWCAP);
    return (CANNERY_WORD("neon") && has & 1ul << 12) || (CANNERY_WORD("vfpv4") && has & 1ul << 16);
#elif defined(__linux__) && defined(__riscv)
    return CANNERY_WORD("v") && getauxval(AT_HWCAP) & 1ul << ('v' - 'a');
#else
    (void)word; /* nobody can be asked */
    (void)length;
    return 1;
#endif
#undef CANNERY_WORD
}

/* The first word of `needs` that this processor lacks, with its length; NULL if it has all. */
static inline const char *cannery_lacks(const char *needs, size_t *length)
{
    while (*needs) {
        *length = strcspn(needs, " ");
        if (*length && !cannery_has(needs, *length)) {
            return needs;
        }
        needs += *length;
        needs += *needs == ' ';
    }
    return NULL;
}

static inline int cannery_same_tensor(const cannery_tensor *a, const cannery_tensor *b)
{
    const float scale_difference = a->scale - b->scale;
    if (strcmp(a->name, b->name) != 0 || a->dtype != b->dtype || a->rank != b->rank ||
        a->bytes != b->bytes || !(scale_difference <= 0.0f && scale_difference >= 0.0f) ||
        a->zero_point != b->zero_point) {
        return 0;
    }
    return a->rank == 0 || memcmp(a->dims, b->dims, CANNERY_CAST(size_t, a->rank) * sizeof(a->dims[0])) == 0;
}

/* Writes in what a library's network differs from what a program was built for. */
static inline int cannery_tell_difference(const char *path, const cannery_expected *expected,
                                          const cannery_model *model, cannery_load_error error)
{
    const int code = CANNERY_LOAD_INTERFACE;
    const char *const cure = "build the program with the headers of this library";
    if (model->input_count != expected->input_count || model->output_count != expected->output_count) {
        return cannery_load_fails(error, code, "%s: %ld inputs and %ld outputs, the program has %ld and "
                                  "%ld; %s", path, CANNERY_CAST(long, model->input_count), CANNERY_CAST(long, model->output_count),
                                  CANNERY_CAST(long, expected->input_count), CANNERY_CAST(long, expected->output_count), cure);
    }
    for (int32_t k = 0; k < expected->input_count; ++k) {
        if (!cannery_same_tensor(&model->inputs[k], &expected->inputs[k])) {
            return cannery_load_fails(error, code, "%s: input \"%s\" has another name, type, shape or "
                                      "scale than \"%s\" of the program; %s", path,
                                      model->inputs[k].name, expected->inputs[k].name, cure);
        }
    }
    for (int32_t k = 0; k < expected->output_count; ++k) {
        if (!cannery_same_tensor(&model->outputs[k], &expected->outputs[k])) {
            return cannery_load_fails(error, code, "%s: output \"%s\" has another name, type, shape or "
                                      "scale than \"%s\" of the program; %s", path,
                                      model->outputs[k].name, expected->outputs[k].name, cure);
        }
    }
    if (model->workspace_bytes != expected->workspace_bytes ||
        model->many_workspace_bytes != expected->many_workspace_bytes) {
        return cannery_load_fails(error, code, "%s: the workspace takes %lu bytes (of many inputs %lu), "
                                  "the program has %lu (%lu); %s", path,
                                  CANNERY_CAST(unsigned long, model->workspace_bytes),
                                  CANNERY_CAST(unsigned long, model->many_workspace_bytes),
                                  CANNERY_CAST(unsigned long, expected->workspace_bytes),
                                  CANNERY_CAST(unsigned long, expected->many_workspace_bytes), cure);
    }
    if (model->state_bytes != expected->state_bytes) {
        return cannery_load_fails(error, code, "%s: the state takes %lu bytes, the program has %lu; %s",
                                  path, CANNERY_CAST(unsigned long, model->state_bytes),
                                  CANNERY_CAST(unsigned long, expected->state_bytes), cure);
    }
    return cannery_load_fails(error, code, "%s: its functions differ from those of the program, as it was "
                              "compiled with other options; %s", path, cure);
}

/* Checks what a library says of itself; `about` may be NULL. Nothing of its code runs. */
static inline int cannery_check_library(const char *path, const cannery_library *about,
                                        const cannery_expected *expected, cannery_load_error error)
{
    size_t length = 0;
    const char *lacking;
    if (!about || about->magic != CANNERY_LIBRARY_MAGIC) {
        return cannery_load_fails(error, CANNERY_LOAD_FOREIGN, "%s: this library does not hold a network "
                                  "called %s; give one that Cannery made with SHARED and that name",
                                  path, expected->name);
    }
    if (about->version != CANNERY_LIBRARY_VERSION || about->model->abi_version != CANNERY_ABI_VERSION ||
        about->model->struct_bytes < sizeof(cannery_model)) {
        return cannery_load_fails(error, CANNERY_LOAD_VERSION, "%s: made by Cannery %s, whose libraries "
                                  "this program cannot read; build both with the same Cannery",
                                  path, about->model->cannery_version);
    }
    lacking = cannery_lacks(about->needs, &length);
    if (lacking) {
        return cannery_load_fails(error, CANNERY_LOAD_PROCESSOR, "%s: it needs %.*s, which this processor "
                                  "does not have; compile the network for this processor",
                                  path, CANNERY_CAST(int, length), lacking);
    }
    if (strcmp(about->interface_hash, expected->interface_hash) != 0) {
        return cannery_tell_difference(path, expected, about->model, error);
    }
    return CANNERY_LOADED;
}

#endif
