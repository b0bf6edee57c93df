/* SPDX-License-Identifier: MIT-0
 *
 * Writes what a library counted (<cannery/trace.h>) into a file for `cannery bench --from`.
 */
#ifndef CANNERY_TRACE_FILE_H
#define CANNERY_TRACE_FILE_H

#include <stdio.h>

#include "cannery.h"
#include "trace.h"

/* A whole number; small C libraries print none of 64 bits. */
static inline void cannery_trace_put(FILE *file, uint64_t value)
{
    char digits[24];
    int at = (int)sizeof digits - 1;
    digits[at] = 0;
    do {
        digits[--at] = (char)('0' + (int)(value % 10u));
        value /= 10u;
    } while (value != 0);
    fputs(digits + at, file);
}

/* One line of JSON. `ticks_per_second`: 1000000000 where ticks are nanoseconds, else the rate of the
 * clock. Returns 0, or -1 where the file took not all of it. */
static inline int cannery_trace_write(FILE *file, const cannery_model *model, const cannery_trace_step *steps,
                                      int32_t count, uint64_t ticks_per_second)
{
    fprintf(file, "{\"cannery_trace\": 1, \"model\": \"%s\", \"hash\": \"%s\", \"ticks_per_second\": ",
            model->name, model->model_hash);
    cannery_trace_put(file, ticks_per_second);
    fputs(", \"steps\": [", file);
    for (int32_t k = 0; k < count; ++k) {
        fprintf(file, "%s{\"function\": \"%s\", \"calls\": ", k ? ", " : "", steps[k].function);
        cannery_trace_put(file, steps[k].calls);
        fputs(", \"ticks\": ", file);
        cannery_trace_put(file, steps[k].ticks);
        fputs("}", file);
    }
    fputs("]}\n", file);
    return ferror(file) ? -1 : 0;
}

#endif
