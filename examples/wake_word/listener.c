#include "listener.h"

#include <assert.h>

static_assert((int)WAKE_BANDS_LEN == (int)BANDS_COUNT, "the network takes other bands");
static_assert(WAKE_PROBABILITY_LEN == 1, "the network does not give one probability for each step");

/* evaluate.py measures with the same numbers. */
#define THRESHOLD 0.9f
#define NEWEST 0.4f
enum { PAUSE = 30 };

void listener_init(listener *l)
{
    bands_init(&l->hearing);
    wake_reset(l->state);
    l->likely = 0.0f;
    l->pause = 0;
}

int listener_hears(listener *l, const float samples[BANDS_HOP])
{
    float loudness[BANDS_COUNT], probability;
    bands_next(&l->hearing, samples, loudness);
    wake_step(l->state, loudness, &probability);
    l->likely += NEWEST * (probability - l->likely);
    if (l->pause > 0) {
        --l->pause;
    } else if (l->likely > THRESHOLD) {
        l->pause = PAUSE;
        return 1;
    }
    return 0;
}
