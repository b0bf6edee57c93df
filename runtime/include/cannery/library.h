/* SPDX-License-Identifier: MIT-0
 *
 * What the shared library of a network says of itself, and what a program expects of it:
 * see cannery/loader.h.
 */
#ifndef CANNERY_LIBRARY_H
#define CANNERY_LIBRARY_H

#include "cannery/cannery.h"

#define CANNERY_LIBRARY_MAGIC 0x424c4e43u /* "CNLB" */
#define CANNERY_LIBRARY_VERSION 1u

/* The symbol <name>_about. The beginning stays as it is in all versions: magic, version, model. */
typedef struct cannery_library {
    uint32_t magic;
    uint32_t version;
    const cannery_model *model;
    const char *interface_hash; /* of names, shapes, types, sizes and functions */
    const char *needs;          /* what the processor must have, words with a space between */
} cannery_library;

/* The interface that a program was built for. */
typedef struct cannery_expected {
    const char *name;
    const char *interface_hash;
    int32_t input_count;
    int32_t output_count;
    const cannery_tensor *inputs;
    const cannery_tensor *outputs;
    size_t workspace_bytes;
    size_t many_workspace_bytes;
    size_t state_bytes;
} cannery_expected;

#endif
