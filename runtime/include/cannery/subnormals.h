/* SPDX-License-Identifier: MIT-0
 *
 * Subnormal numbers, those nearer to zero than 1.2e-38, are slow on many processors, by a factor of
 * up to a hundred. After the input has become silent, the state of a recurrent network may decay to
 * such numbers and remain there. Programs with a deadline let the processor take them for zero while
 * a network runs, in each callback, as the mode belongs to the thread:
 *
 *     const uint64_t mode = cannery_flush_subnormals();
 *     amp_step(state, in, out);
 *     cannery_restore_subnormals(mode);
 *
 * Where the processor has no such mode (RISC-V, x87, Arm without an FPU) nothing happens. NEON of
 * Armv7 always takes them for zero.
 */
#ifndef CANNERY_SUBNORMALS_H
#define CANNERY_SUBNORMALS_H

#include <stdint.h>

#if defined(__SSE2__) || defined(_M_X64)
#include <emmintrin.h>
#define CANNERY_FLUSH_BITS 0x8040u /* results (FTZ) and operands (DAZ) */
#elif defined(__aarch64__) && defined(__GNUC__)
#define CANNERY_FLUSH_BITS 0x1000000u
#elif defined(__arm__) && defined(__ARM_FP) && defined(__GNUC__)
#define CANNERY_FLUSH_BITS 0x1000000u
#else
#define CANNERY_FLUSH_BITS 0u
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* Sets the mode that `cannery_flush_subnormals` returned. */
static inline void cannery_restore_subnormals(uint64_t mode)
{
#if defined(__SSE2__) || defined(_M_X64)
    _mm_setcsr(mode & 0xffffffffu);
#elif defined(__aarch64__) && defined(__GNUC__)
    __asm__ volatile("msr fpcr, %0" : : "r"(mode) : "memory");
#elif defined(__arm__) && defined(__ARM_FP) && defined(__GNUC__)
    const uint32_t low = mode & 0xffffffffu;
    __asm__ volatile("vmsr fpscr, %0" : : "r"(low) : "memory");
#else
    (void)mode;
#endif
}

/* Subnormal numbers count as zero in this thread from now on. Returns the mode before. */
static inline uint64_t cannery_flush_subnormals(void)
{
    uint64_t mode = 0;
#if defined(__SSE2__) || defined(_M_X64)
    mode = _mm_getcsr();
#elif defined(__aarch64__) && defined(__GNUC__)
    __asm__ volatile("mrs %0, fpcr" : "=r"(mode) : : "memory");
#elif defined(__arm__) && defined(__ARM_FP) && defined(__GNUC__)
    uint32_t low;
    __asm__ volatile("vmrs %0, fpscr" : "=r"(low) : : "memory");
    mode = low;
#endif
    if ((mode & CANNERY_FLUSH_BITS) != CANNERY_FLUSH_BITS) {
        cannery_restore_subnormals(mode | CANNERY_FLUSH_BITS);
    }
    return mode;
}

#ifdef __cplusplus
}
#endif

#endif
