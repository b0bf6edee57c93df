/* What measuring programs need from the machine: time, one core to stay on, empty caches. Their
 * first lines define _GNU_SOURCE, because not all of this is standard C.
 */
#ifndef CANNERY_MACHINE_H
#define CANNERY_MACHINE_H

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#if defined(__unix__)
#include <unistd.h>
#endif
#if defined(__linux__)
#include <errno.h>
#include <sched.h>
#include <sys/prctl.h>
#endif

#if !defined(KERNEL_FILES)
#define KERNEL_FILES "" /* the folder with /proc and /sys; tests use another one */
#endif

static inline double seconds(void)
{
#if defined(__unix__)
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
#else
    return (double)clock() / (double)CLOCKS_PER_SEC;
#endif
}

/* Returns when `seconds()` has reached `due`; the core may rest until then. */
static inline void sleep_until(double due)
{
#if defined(__linux__)
    struct timespec t;
    t.tv_sec = (time_t)due;
    t.tv_nsec = (long)(1e9 * (due - (double)t.tv_sec));
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, 0) == EINTR) {
    }
#endif
    while (seconds() < due) { /* the rest of a microsecond, or all of it without sleep */
    }
}

/* Makes sleeps end on time: by default Linux may add 50 us. */
static inline void wake_exactly(void)
{
#if defined(__linux__) && defined(PR_SET_TIMERSLACK)
    prctl(PR_SET_TIMERSLACK, 1ul, 0ul, 0ul, 0ul);
#endif
}

#if defined(__linux__)
/* How fast a core can be, where cores differ; 0 if unknown. */
static inline long core_speed(int core)
{
    static const char *const files[] = { "cpu_capacity", "cpufreq/cpuinfo_max_freq" };
    long speed = 0;
    for (int k = 0; k < 2 && speed == 0; ++k) {
        char name[256];
        FILE *file;
        snprintf(name, sizeof name, KERNEL_FILES "/sys/devices/system/cpu/cpu%d/%s", core, files[k]);
        file = fopen(name, "r");
        if (file) {
            if (fscanf(file, "%ld", &speed) != 1) {
                speed = 0;
            }
            fclose(file);
        }
    }
    return speed;
}

static cpu_set_t all_cores;
static int has_all_cores;
#endif

/* Stays on the fastest core, or the last of equally fast ones; returns its number, -1 if unknown. */
static inline int stay_on_one_core(void)
{
    int best = -1;
#if defined(__linux__)
    long speed = -1;
    if (!has_all_cores && sched_getaffinity(0, sizeof all_cores, &all_cores) == 0) {
        has_all_cores = 1;
    }
    for (int k = 0; k < CPU_SETSIZE && has_all_cores; ++k) {
        if (CPU_ISSET((size_t)k, &all_cores)) {
            const long found = core_speed(k);
            if (found >= speed) {
                best = k;
                speed = found;
            }
        }
    }
    if (best >= 0) {
        cpu_set_t one;
        CPU_ZERO(&one);
        CPU_SET((size_t)best, &one);
        sched_setaffinity(0, sizeof one, &one);
    }
#endif
    return best;
}

/* Undoes `stay_on_one_core`. */
static inline void use_all_cores(void)
{
#if defined(__linux__)
    if (has_all_cores) {
        sched_setaffinity(0, sizeof all_cores, &all_cores);
    }
#endif
}

/* Bytes of all the first core's caches that hold data, shared ones in full; 0 if unknown. */
static inline size_t data_cache_bytes(void)
{
    size_t all = 0;
#if defined(__linux__)
    for (int k = 0; k < 8; ++k) {
        char name[80], type[16] = "";
        unsigned long size = 0;
        char unit = 'K';
        FILE *file;
        snprintf(name, sizeof name, "/sys/devices/system/cpu/cpu0/cache/index%d/type", k);
        file = fopen(name, "r");
        if (!file) {
            break;
        }
        if (fscanf(file, "%15s", type) != 1) {
            type[0] = 'I';
        }
        fclose(file);
        snprintf(name, sizeof name, "/sys/devices/system/cpu/cpu0/cache/index%d/size", k);
        file = fopen(name, "r");
        if (!file) {
            continue;
        }
        if (fscanf(file, "%lu%c", &size, &unit) >= 1 && type[0] != 'I') {
            all += (size_t)(size < 1ul << 20 ? size : 1ul << 20) << (unit == 'M' ? 20 : 10);
        }
        fclose(file);
    }
#endif
#if defined(_SC_LEVEL1_DCACHE_SIZE) && defined(_SC_LEVEL3_CACHE_SIZE)
    if (!all) {
        const int names[] = { _SC_LEVEL1_DCACHE_SIZE, _SC_LEVEL2_CACHE_SIZE, _SC_LEVEL3_CACHE_SIZE };
        for (int k = 0; k < 3; ++k) {
            const long size = sysconf(names[k]);
            all += size > 0 ? (size_t)size : 0;
        }
    }
#endif
    return all;
}

/* How much memory displaces the caches' contents: four times their size, so that no replacement
 * policy keeps much. It is 8 to 64 MB: a last-level cache for dozens of cores is not emptied in
 * full, as one core's work would not do that either.
 */
static inline size_t emptying_bytes(void)
{
    static size_t bytes;
    if (!bytes) {
        const size_t wanted = data_cache_bytes(), least = (size_t)8 << 20, most = (size_t)64 << 20;
        bytes = wanted > most / 4 ? most : wanted < least / 4 ? least : 4 * wanted;
    }
    return bytes;
}

/* Code that does nothing, more than a first-level cache holds. */
#if defined(__unix__) && defined(__GNUC__)
__attribute__((noinline, unused)) static void long_way(void)
{
#if defined(__i386__) || defined(__x86_64__)
    __asm__ volatile(".rept 131072\n\tnop\n\t.endr");
#else
    __asm__ volatile(".rept 32768\n\tnop\n\t.endr");
#endif
}
#endif

/* Puts other data and code into the caches. */
static inline void empty_caches(void)
{
    static volatile unsigned char *memory;
    const size_t size = emptying_bytes();
    if (!memory) {
        memory = (volatile unsigned char *)calloc(1, size);
        if (!memory) {
            fprintf(stderr, "out of memory\n");
            exit(3);
        }
    }
    for (size_t k = 0; k < size; k += 32) {
        memory[k] = (unsigned char)(memory[k] + 1);
    }
#if defined(__unix__) && defined(__GNUC__)
    long_way();
#endif
    (void)seconds(); /* reading the clock is not part of the measurement */
}

#endif
