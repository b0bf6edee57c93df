/* Classifies the images that <folder>/labels.txt lists, checks the labels, measures the time.
 *
 *     classify [folder]
 *
 * Exit code 0: all labels are right; 1: some are wrong; 2: the images cannot be read. */

#include "ball.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { WIDTH = 16, HEIGHT = 16, MOST = 64, SAMPLES = 10 };

typedef struct {
    char name[64];
    int is_ball;
    uint8_t pixels[BALL_IMAGE_LEN];
} example;

static example examples[MOST];
static int count;

/* Reads a binary PGM of 16x16 bytes. Returns whether it is one. */
static int read_pgm(const char *path, uint8_t *pixels)
{
    FILE *file = fopen(path, "rb");
    int width = 0, height = 0, largest = 0, good;
    if (!file) {
        return 0;
    }
    good = fscanf(file, "P5 %d %d %d", &width, &height, &largest) == 3 && width == WIDTH
        && height == HEIGHT && largest == 255 && fgetc(file) == '\n'
        && fread(pixels, 1, BALL_IMAGE_LEN, file) == BALL_IMAGE_LEN;
    fclose(file);
    return good;
}

/* Reads labels.txt, lines of "name label", and the images that it names. Returns whether it could. */
static int read_examples(const char *folder)
{
    char path[1024], label[16];
    FILE *file;
    int good = 1;
    snprintf(path, sizeof path, "%s/labels.txt", folder);
    file = fopen(path, "r");
    while (file && good && count < MOST) {
        example *e = &examples[count];
        if (fscanf(file, "%63s %15s", e->name, label) != 2) {
            break;
        }
        e->is_ball = strcmp(label, "ball") == 0;
        snprintf(path, sizeof path, "%s/%s", folder, e->name);
        good = read_pgm(path, e->pixels);
        count += good;
    }
    if (file) {
        fclose(file);
    }
    if (!good || count == 0) {
        fprintf(stderr, "%s: cannot be read, or is no grey image of 16x16\n", path);
        return 0;
    }
    return 1;
}

/* Prints each image's scores. Returns the number of wrong labels. */
static int classify(void)
{
    float scores[BALL_SCORES_LEN];
    int wrong = 0;
    printf("%-20s %8s %8s  %s\n", "image", "no ball", "ball", "label");
    for (int k = 0; k < count; ++k) {
        const example *e = &examples[k];
        ball_run(e->pixels, scores);
        const int right = (scores[1] > scores[0]) == e->is_ball;
        wrong += !right;
        printf("%-20s %8.4f %8.4f  %s%s\n", e->name, (double)scores[0], (double)scores[1],
            e->is_ball ? "ball" : "no_ball", right ? "" : " WRONG");
    }
    return wrong;
}

/* The time of `rounds` times all images, in seconds. */
static double seconds_of(long rounds)
{
    float scores[BALL_SCORES_LEN];
    const clock_t start = clock();
    for (long round = 0; round < rounds; ++round) {
        for (int k = 0; k < count; ++k) {
            ball_run(examples[k].pixels, scores);
        }
    }
    return (double)(clock() - start) / (double)CLOCKS_PER_SEC;
}

static int compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Microseconds per image: the lower quartile of samples that are long enough for a coarse clock. */
static double latency_us(void)
{
    const double tick = 1.0 / (double)CLOCKS_PER_SEC;
    const double shortest = 10 * tick > 2e-3 ? 10 * tick : 2e-3;
    double samples[SAMPLES];
    long rounds = 1;
    while (seconds_of(rounds) < shortest) {
        rounds *= 2;
    }
    for (int k = 0; k < SAMPLES; ++k) {
        samples[k] = seconds_of(rounds);
    }
    qsort(samples, SAMPLES, sizeof samples[0], compare);
    return samples[SAMPLES / 4] / (double)rounds / count * 1e6;
}

int main(int argc, char **argv)
{
    int wrong;
    if (!read_examples(argc > 1 ? argv[1] : IMAGES)) {
        return 2;
    }
    wrong = classify();
    printf("%d of %d right, %.3g us per image\n", count - wrong, count, latency_us());
    return wrong ? 1 : 0;
}
