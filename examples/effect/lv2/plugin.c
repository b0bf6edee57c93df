/* The WaveNet as an LV2 plugin: hosts call `process` with any number of samples. */

#include "cannery/subnormals.h"
#include "wavenet.h"

#include <lv2/core/lv2.h>

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

/* As in manifest.ttl and effect.ttl. */
#define URI "https://example.org/cannery/effect"
#define RATE 48000.0

enum { IN, OUT, PORTS };

typedef struct instance {
    float *ports[PORTS];
    double state[WAVENET_STATE_BYTES / 8];
    unsigned char workspace[WAVENET_WORKSPACE_BYTES + WAVENET_WORKSPACE_ALIGN];
} instance;

/* Several instances may run at once: each has a workspace. */
static void *workspace_of(instance *self)
{
    const uintptr_t at = (uintptr_t)self->workspace;
    return self->workspace + (WAVENET_WORKSPACE_ALIGN - at % WAVENET_WORKSPACE_ALIGN) % WAVENET_WORKSPACE_ALIGN;
}

static LV2_Handle instantiate(
    const LV2_Descriptor *descriptor, double rate, const char *bundle, const LV2_Feature *const *features)
{
    (void)descriptor;
    (void)bundle;
    (void)features;
    if (rate != RATE) {
        fprintf(stderr, URI ": made for %g samples per second, not %g\n", RATE, rate);
        return NULL;
    }
    return calloc(1, sizeof(instance));
}

static void connect_port(LV2_Handle handle, uint32_t port, void *data)
{
    ((instance *)handle)->ports[port] = (float *)data;
}

/* The past begins with silence, which is not zero within the network. */
static void activate(LV2_Handle handle)
{
    instance *const self = (instance *)handle;
    wavenet_prewarm(workspace_of(self), self->state, WAVENET_PREWARM_CALLS);
}

/* Hosts call this with a deadline. In and out may be the same memory, the network's must not. */
static void process(LV2_Handle handle, uint32_t count)
{
    enum { BLOCK = 64 };
    instance *const self = (instance *)handle;
    const uint64_t mode = cannery_flush_subnormals();
    float dry[BLOCK];
    for (uint32_t at = 0; at < count; at += BLOCK) {
        const uint32_t n = count - at < BLOCK ? count - at : BLOCK;
        for (uint32_t k = 0; k < n; ++k) {
            dry[k] = self->ports[IN][at + k];
        }
        wavenet_steps_in(workspace_of(self), self->state, (int32_t)n, dry, self->ports[OUT] + at);
    }
    cannery_restore_subnormals(mode);
}

static void cleanup(LV2_Handle handle)
{
    free(handle);
}

static const LV2_Descriptor plugin = {URI, instantiate, connect_port, activate, process, NULL, cleanup, NULL};

LV2_SYMBOL_EXPORT const LV2_Descriptor *lv2_descriptor(uint32_t index)
{
    return index == 0 ? &plugin : NULL;
}
