/* SPDX-License-Identifier: MIT-0
 *
 * Time per step, counted by a library that was generated with TRACE_STEPS. `<name>_trace_read` and
 * `<name>_trace_reset` are in the network's own header; <cannery/trace_file.h> writes a file.
 *
 * Ticks are nanoseconds of CLOCK_MONOTONIC where there is Unix, cycles (DWT->CYCCNT, which
 * `<name>_trace_reset` starts) on Arm's M profile from Cortex-M3 on, else those of clock(). Another
 * clock: compile the library with -DCANNERY_TRACE_CLOCK=my_clock, your `uint32_t my_clock(void)`.
 */
#ifndef CANNERY_TRACE_H
#define CANNERY_TRACE_H

#include <stdint.h>

/* One step of the network: the layer that it is named after, its C function, how many runs it took
 * part in, and the ticks of all of them together, that of one reading of the clock each included. */
typedef struct cannery_trace_step {
    const char *name;
    const char *function;
    uint64_t calls;
    uint64_t ticks;
} cannery_trace_step;

#endif
