/* SPDX-License-Identifier: MIT-0
 *
 * The values of a run, shown by a library that was generated with DUMP_VALUES. `<name>_dump` and
 * `<name>_dump_header` are in the network's own header; <cannery/dump_file.h> writes a file.
 */
#ifndef CANNERY_DUMP_H
#define CANNERY_DUMP_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Called with the memory of value number `value`; -1 (and no bytes) begins a run. */
typedef void cannery_dump(void *context, int32_t value, const void *memory, size_t bytes);

/* Texts, 0 after the last one. */
typedef const char *const *cannery_dump_lines;

#ifdef __cplusplus
}
#endif

#endif
