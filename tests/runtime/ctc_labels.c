/* Decodes scores from standard input by ctc.h: steps, symbols, blank, room (int32), then the scores.
 * Writes the number of labels, the labels, then those that single steps give, -1 where none. */
#include "cannery/ctc.h"
#include "cannery/ctc.h"

#include <stdio.h>

enum { MOST = 4096 };

static float scores[MOST];
static int32_t labels[MOST];

static int take(void *data, size_t bytes, size_t count)
{
    return fread(data, bytes, count, stdin) == count;
}

int main(void)
{
    int32_t given[4], last, count;
    while (take(given, sizeof given[0], 4)) {
        const int32_t steps = given[0], symbols = given[1], blank = given[2], room = given[3];
        if (steps * symbols > MOST || !take(scores, sizeof scores[0], (size_t)(steps * symbols))) {
            return 1;
        }
        for (int32_t k = 0; k < MOST; ++k) {
            labels[k] = -7;
        }
        count = cannery_ctc_best_path(scores, steps, symbols, blank, labels, room);
        fwrite(&count, sizeof count, 1, stdout);
        fwrite(labels, sizeof labels[0], (size_t)steps, stdout);
        last = blank;
        for (int32_t t = 0; t < steps; ++t) {
            labels[t] = cannery_ctc_step(scores + t * symbols, symbols, blank, &last);
        }
        fwrite(labels, sizeof labels[0], (size_t)steps, stdout);
    }
    return 0;
}
