/* The reader of examples/ocr as a person writes it first: loops, and the C library's exp and tanh.
 *
 *     lines read WEIGHTS image.pgm...           prints their texts
 *     lines rate WEIGHTS SECONDS image.pgm...   prints lines per second, by one thread
 *
 * WEIGHTS holds float32: W[2][4H][I], R[2][4H][H], B[2][8H] and P[2][3H] of ONNX's LSTM (gates i, o,
 * f, c), then kernel[2H][S] and bias[S]. With UNROLLED, sums run in eight parts at once. */

#define _POSIX_C_SOURCE 200809L

#include "line_image.h"
#include "symbols.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { INPUTS = LINE_ROWS, CELLS = 100, GATES = 4, LONGEST = 732, MOST = 512 };

/* The file of weights, in order. */
static struct {
    float w[2][GATES * CELLS][INPUTS], r[2][GATES * CELLS][CELLS], b[2][2][GATES * CELLS];
    float p[2][3][CELLS], kernel[2 * CELLS][SYMBOLS], bias[SYMBOLS];
} model;

static int32_t lengths[MOST], count;
static uint8_t columns[MOST][LONGEST * INPUTS];
static float features[LONGEST][2 * CELLS], scores[LONGEST][SYMBOLS];

static float sum_of_products(const float *a, const float *b, int n)
{
#ifdef UNROLLED
    enum { PARTS = 8 };
    float parts[PARTS] = { 0 }, sum = 0;
    int k = 0;
    for (; k + PARTS <= n; k += PARTS) {
        for (int part = 0; part < PARTS; ++part) {
            parts[part] += a[k + part] * b[k + part];
        }
    }
    for (; k < n; ++k) {
        parts[k % PARTS] += a[k] * b[k];
    }
    for (int part = 0; part < PARTS; ++part) {
        sum += parts[part];
    }
    return sum;
#else
    float sum = 0;
    for (int k = 0; k < n; ++k) {
        sum += a[k] * b[k];
    }
    return sum;
#endif
}

static float sigmoid(float x)
{
    return 1 / (1 + expf(-x));
}

/* One direction over a line; its outputs become one half of the features. */
static void lstm(int direction, int32_t length, const uint8_t *line)
{
    float h[CELLS] = { 0 }, c[CELLS] = { 0 };
    for (int32_t step = 0; step < length; ++step) {
        const int32_t t = direction ? length - 1 - step : step;
        float x[INPUTS], gates[GATES][CELLS];
        for (int k = 0; k < INPUTS; ++k) {
            x[k] = 3 - (float)line[t * INPUTS + k] / 64;
        }
        for (int g = 0; g < GATES; ++g) {
            for (int j = 0; j < CELLS; ++j) {
                const int row = g * CELLS + j;
                gates[g][j] = model.b[direction][0][row] + model.b[direction][1][row]
                    + sum_of_products(model.w[direction][row], x, INPUTS)
                    + sum_of_products(model.r[direction][row], h, CELLS);
            }
        }
        for (int j = 0; j < CELLS; ++j) {
            const float i = sigmoid(gates[0][j] + model.p[direction][0][j] * c[j]);
            const float f = sigmoid(gates[2][j] + model.p[direction][2][j] * c[j]);
            c[j] = f * c[j] + i * tanhf(gates[3][j]);
            h[j] = sigmoid(gates[1][j] + model.p[direction][1][j] * c[j]) * tanhf(c[j]);
            features[t][direction * CELLS + j] = h[j];
        }
    }
}

/* The most probable symbol of each step, repeated ones and blanks left out; returns how many. */
static int32_t read_line(int32_t length, const uint8_t *line, int *symbols)
{
    int32_t found = 0;
    int last = BLANK;
    lstm(0, length, line);
    lstm(1, length, line);
    for (int32_t t = 0; t < length; ++t) {
        float largest = -INFINITY, sum = 0;
        int best = 0;
        for (int s = 0; s < SYMBOLS; ++s) {
            float score = model.bias[s];
            for (int k = 0; k < 2 * CELLS; ++k) {
                score += model.kernel[k][s] * features[t][k];
            }
            scores[t][s] = score;
            if (score > largest) {
                largest = score;
                best = s;
            }
        }
        for (int s = 0; s < SYMBOLS; ++s) {
            scores[t][s] = expf(scores[t][s] - largest);
            sum += scores[t][s];
        }
        for (int s = 0; s < SYMBOLS; ++s) {
            scores[t][s] /= sum;
        }
        if (best != last && best != BLANK) {
            symbols[found++] = best;
        }
        last = best;
    }
    return found;
}

static double seconds_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* Reads the model and the images; returns whether all could be read. */
static int load(const char *weights, int images, char **paths)
{
    FILE *file = fopen(weights, "rb");
    const int good = file && fread(&model, sizeof model, 1, file) == 1 && fgetc(file) == EOF;
    if (file) {
        fclose(file);
    }
    for (; good && count < images; ++count) {
        lengths[count] = line_image_read(paths[count], LONGEST, columns[count]);
        if (lengths[count] == 0) {
            break;
        }
    }
    return good && count == images;
}

int main(int argc, char **argv)
{
    static int symbols[LONGEST];
    const int rate = argc > 1 && strcmp(argv[1], "rate") == 0, first = rate ? 4 : 3;
    if (argc <= first || argc - first > MOST || !load(argv[2], argc - first, argv + first)) {
        fprintf(stderr, "usage: lines read WEIGHTS image.pgm...\n"
                        "       lines rate WEIGHTS SECONDS image.pgm...\n");
        return 2;
    }
    if (rate) {
        const double start = seconds_now(), seconds = atof(argv[3]);
        double end;
        long rounds = 0;
        do {
            for (int32_t k = 0; k < count; ++k) {
                (void)read_line(lengths[k], columns[k], symbols);
            }
            ++rounds;
            end = seconds_now();
        } while (end - start < seconds);
        printf("%.6g\n", (double)rounds * count / (end - start));
        return 0;
    }
    for (int32_t k = 0; k < count; ++k) {
        const int32_t found = read_line(lengths[k], columns[k], symbols);
        for (int32_t i = 0; i < found; ++i) {
            fputs(characters[symbols[i]], stdout);
        }
        putchar('\n');
    }
    return 0;
}
