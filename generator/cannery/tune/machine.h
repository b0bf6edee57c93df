/* What programs that measure need of the machine: time, and one core to stay on. Their first lines
 * define _GNU_SOURCE, as not all of this is C.
 */
#ifndef CANNERY_MACHINE_H
#define CANNERY_MACHINE_H

#include <time.h>

#if defined(__linux__)
#include <errno.h>
#include <sched.h>
#include <sys/prctl.h>
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
    while (seconds() < due) { /* the rest of a microsecond, or all of it where nothing sleeps */
    }
}

/* Sleeps end when they should: by default Linux may add 50 us. */
static inline void wake_exactly(void)
{
#if defined(__linux__) && defined(PR_SET_TIMERSLACK)
    prctl(PR_SET_TIMERSLACK, 1ul, 0ul, 0ul, 0ul);
#endif
}

static inline void stay_on_one_core(void)
{
#if defined(__linux__)
    cpu_set_t all, one;
    if (sched_getaffinity(0, sizeof all, &all) == 0) {
        for (int k = CPU_SETSIZE - 1; k >= 0; --k) {
            if (CPU_ISSET(k, &all)) {
                CPU_ZERO(&one);
                CPU_SET(k, &one);
                sched_setaffinity(0, sizeof one, &one);
                return;
            }
        }
    }
#endif
}

#endif
