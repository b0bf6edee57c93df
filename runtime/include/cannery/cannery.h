/* SPDX-License-Identifier: MIT-0
 *
 * The contract between a generated model and the tools that load it. It is append-only: a reader
 * checks abi_version, and uses no member beyond struct_bytes.
 */
#ifndef CANNERY_H
#define CANNERY_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define CANNERY_ABI_VERSION 1u

/* Defines a function that the program calls. On 32-bit x86, some programs align the stack only
 * to 4 bytes (older compilers, other languages), so such a function aligns it to 16 itself. */
#if defined(__i386__) && defined(__GNUC__)
#define CANNERY_ENTRY __attribute__((force_align_arg_pointer))
#else
#define CANNERY_ENTRY
#endif

/* Element types of tensors. */
enum {
    CANNERY_FLOAT32 = 0,
    CANNERY_UINT8 = 1,
    CANNERY_INT8 = 2,
    CANNERY_INT16 = 3,
    CANNERY_INT32 = 4,
    CANNERY_INT64 = 5,
    CANNERY_BOOL = 6,
    CANNERY_UINT16 = 7,
    CANNERY_UINT32 = 8,
    CANNERY_UINT64 = 9
};

/* An input or output: dense, channels last unless the model's header says otherwise. */
typedef struct cannery_tensor {
    const char *name;
    int32_t dtype;
    int32_t rank;
    const int32_t *dims;
    size_t bytes;
    float scale; /* value = scale * (q - zero_point); 0 if not quantised */
    int32_t zero_point;
} cannery_tensor;

/* A model. The caller zero-fills the workspace once before its first use. */
typedef struct cannery_model {
    uint32_t abi_version;
    uint32_t struct_bytes;
    const char *name;
    const char *model_hash;
    const char *cannery_version;
    int32_t input_count;
    int32_t output_count;
    const cannery_tensor *inputs;
    const cannery_tensor *outputs;
    size_t workspace_bytes;
    size_t workspace_align;
    size_t state_bytes;
    void (*run)(void *workspace, const void *const *inputs, void *const *outputs);
    void (*reset)(void *state);
    void (*step)(void *workspace, void *state, const void *const *inputs, void *const *outputs);
    /* n runs at once: inputs[k] and outputs[k] are n tensors, one after the other. */
    size_t many_workspace_bytes;
    void (*run_many)(void *workspace, int32_t n, const void *const *inputs, void *const *outputs);
    /* This many of the last inputs and outputs are the state, which `step` keeps in state_bytes. */
    int32_t state_count;
    /* If sequences may have fewer steps than their tensors: the tensors' steps (else 0), and
     * `run` for sequences of `length` steps; `run` itself computes all. */
    int32_t max_length;
    void (*run_length)(void *workspace, int32_t length, const void *const *inputs,
                       void *const *outputs);
} cannery_model;

#ifdef __cplusplus
}
#endif

#endif
