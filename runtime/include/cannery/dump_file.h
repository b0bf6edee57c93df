/* SPDX-License-Identifier: MIT-0
 *
 * Writes the values of runs (<cannery/dump.h>) into a file for `cannery compare --dump`:
 *
 *     FILE *file = fopen("run.dump", "wb");
 *     cannery_dump_start(file, ball_dump_header());
 *     ball_dump(cannery_dump_write, file);
 *     ball_run(image, scores);
 *     ball_dump(0, 0);
 *     fclose(file);
 */
#ifndef CANNERY_DUMP_FILE_H
#define CANNERY_DUMP_FILE_H

#include <stdio.h>

#include "dump.h"

/* A line with the format, the lines of `<name>_dump_header`, an empty line. */
static inline void cannery_dump_start(FILE *file, cannery_dump_lines header)
{
    fputs("CANNERY-DUMP 1\n", file);
    for (; *header; ++header) {
        fputs(*header, file);
        fputs("\n", file);
    }
    fputs("\n", file);
}

/* Four bytes of the value's number, eight of its size, least significant first; its memory. */
static inline void cannery_dump_write(void *file, int32_t value, const void *memory, size_t bytes)
{
    unsigned char head[12];
    for (int k = 0; k < 4; ++k) {
        head[k] = (unsigned char)((uint32_t)value >> (8 * k) & 255u);
    }
    for (int k = 0; k < 8; ++k) {
        head[4 + k] = (unsigned char)((uint64_t)bytes >> (8 * k) & 255u);
    }
    fwrite(head, 1, sizeof head, (FILE *)file);
    if (bytes) {
        fwrite(memory, 1, bytes, (FILE *)file);
    }
}

#endif
