/* SPDX-License-Identifier: MIT-0
 *
 * The clock of <cannery/trace.h>, for the generated library alone.
 */
#ifndef CANNERY_TRACE_CLOCK_H
#define CANNERY_TRACE_CLOCK_H

#include <stdint.h>

#if defined(CANNERY_TRACE_CLOCK)
#ifdef __cplusplus
extern "C" {
#endif
uint32_t CANNERY_TRACE_CLOCK(void);
#ifdef __cplusplus
}
#endif
typedef uint32_t cannery_trace_time;

static inline cannery_trace_time cannery_trace_now(void)
{
    return CANNERY_TRACE_CLOCK();
}

static inline void cannery_trace_start(void)
{
}
#elif defined(__ARM_ARCH_6M__) || defined(__ARM_ARCH_8M_BASE__)
#error "this processor counts no cycles: define CANNERY_TRACE_CLOCK, see cannery/trace.h"
#elif defined(__ARM_ARCH_PROFILE) && __ARM_ARCH_PROFILE == 'M'
typedef uint32_t cannery_trace_time;

static inline cannery_trace_time cannery_trace_now(void)
{
    return *(volatile const uint32_t *)(uintptr_t)0xE0001004u; /* DWT->CYCCNT */
}

static inline void cannery_trace_start(void)
{
    *(volatile uint32_t *)(uintptr_t)0xE000EDFCu |= 1u << 24; /* CoreDebug->DEMCR, TRCENA */
    *(volatile uint32_t *)(uintptr_t)0xE0001FB0u = 0xC5ACCE55u; /* DWT->LAR, which Cortex-M7 has */
    *(volatile uint32_t *)(uintptr_t)0xE0001000u |= 1u; /* DWT->CTRL, CYCCNTENA */
}
#else
#include <time.h>
typedef uint64_t cannery_trace_time;

static inline cannery_trace_time cannery_trace_now(void)
{
#if defined(CLOCK_MONOTONIC)
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
#else
    return (uint64_t)clock();
#endif
}

static inline void cannery_trace_start(void)
{
}
#endif

/* Several threads may run the network at once; processors without such an addition have one core. */
static inline void cannery_trace_add(uint64_t *sum, uint64_t more)
{
#if defined(__GCC_ATOMIC_LLONG_LOCK_FREE) && __GCC_ATOMIC_LLONG_LOCK_FREE == 2
    __atomic_fetch_add(sum, more, __ATOMIC_RELAXED);
#else
    *sum += more;
#endif
}

#endif
