/* SPDX-License-Identifier: MIT-0
 *
 * Best-path decoding for networks trained with connectionist temporal classification (Graves et
 * al. 2006): it takes each step's best symbol, merges runs of the same symbol, and drops blanks.
 * A blank between two equal symbols keeps them apart.
 *
 *     int32_t labels[OCR_MAX_LENGTH];
 *     ocr_run(columns, length, symbols);
 *     count = cannery_ctc_best_path(symbols, length, 110, 0, labels, OCR_MAX_LENGTH);
 *
 * Scores may be probabilities, their logarithms or the input of a softmax: only their order counts.
 */
#ifndef CANNERY_CTC_H
#define CANNERY_CTC_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The first of the best symbols. NaN scores do not count; if all are NaN, it is `otherwise`. */
static inline int32_t cannery_ctc_best(const float *scores, int32_t symbols, int32_t otherwise)
{
    int32_t best = 0, k;
    float a, b, c, d; /* four maxima at a time: a single one would wait for each comparison */
    while (best < symbols && !(scores[best] >= scores[best])) {
        ++best;
    }
    if (best >= symbols) {
        return otherwise;
    }
    a = b = c = d = scores[best];
    for (k = best + 1; k + 3 < symbols; k += 4) {
        a = scores[k] > a ? scores[k] : a;
        b = scores[k + 1] > b ? scores[k + 1] : b;
        c = scores[k + 2] > c ? scores[k + 2] : c;
        d = scores[k + 3] > d ? scores[k + 3] : d;
    }
    for (; k < symbols; ++k) {
        a = scores[k] > a ? scores[k] : a;
    }
    a = b > a ? b : a;
    c = d > c ? d : c;
    a = c > a ? c : a;
    while (!(scores[best] >= a)) {
        ++best;
    }
    return best;
}

/* Takes one step. Returns the label that it adds, 0 to symbols - 1, or -1 if it adds none.
 * `last` holds the best symbol of the previous step; set it to `blank` before the first step. */
static inline int32_t cannery_ctc_step(const float *scores, int32_t symbols, int32_t blank, int32_t *last)
{
    const int32_t before = *last;
    *last = cannery_ctc_best(scores, symbols, blank);
    return *last == blank || *last == before ? -1 : *last;
}

/* Decodes `steps` rows of `symbols` scores each: writes the first `room` labels and returns how many
 * there are, at most `steps`. */
static inline int32_t cannery_ctc_best_path(
    const float *scores, int32_t steps, int32_t symbols, int32_t blank, int32_t *labels, int32_t room)
{
    int32_t last = blank, count = 0;
    for (int32_t t = 0; t < steps; ++t) {
        const int32_t label = cannery_ctc_step(scores, symbols, blank, &last);
        if (label >= 0) {
            if (count < room) {
                labels[count] = label;
            }
            ++count;
        }
        scores += symbols;
    }
    return count;
}

#ifdef __cplusplus
}
#endif

#endif
