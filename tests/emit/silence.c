/* Noise, then silence: prints how many numbers of state and output are subnormal after that, as it
 * is, and with cannery_flush_subnormals. */
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "cannery/subnormals.h"
#include "net.h"

enum { NOISE = 200, SILENCE = 3000 };

static double state[NET_STATE_BYTES / 8];
static float x[NET_X_LEN], y[NET_SCORES_LEN];

/* Integers only: how floats compare depends on the mode. */
static int subnormals(const void *values, size_t bytes)
{
    int count = 0;
    for (size_t i = 0; i < bytes; i += 4) {
        uint32_t bits;
        memcpy(&bits, (const char *)values + i, 4);
        count += (bits & 0x7f800000u) == 0 && (bits & 0x7fffffu) != 0;
    }
    return count;
}

/* Subnormal numbers of the state and the outputs in the second half of the silence, at most. */
static int most(void)
{
    int found = 0;
    unsigned random = 1;
    net_reset(state);
    for (int step = 0; step < NOISE + SILENCE; ++step) {
        for (int k = 0; k < NET_X_LEN; ++k) {
            random = random * 1103515245u + 12345u;
            x[k] = step < NOISE ? (float)(random >> 8) / 8388608.0f - 1.0f : 0.0f;
        }
        net_step(state, x, y);
        if (step >= NOISE + SILENCE / 2) {
            const int now = subnormals(state, sizeof state) + subnormals(y, sizeof y);
            found = now > found ? now : found;
        }
    }
    return found;
}

int main(void)
{
    const int as_it_is = most();
    const uint64_t mode = cannery_flush_subnormals();
    const int flushed = most();
    cannery_restore_subnormals(mode);
    printf("%d %d\n", as_it_is, flushed);
    return 0;
}
