// robot                    first boot: self-test, then one drawn patch
// robot FILE.pgm...        the same, then classifies 16x16 patches
//
// Prints JSON lines. Exit code 1 if the self-test fails, 2 if a file cannot be read.

#include "ball_detector.hpp"
#include "image.hpp"
#ifdef ROBOT_TCM
#include "tcm.hpp"
#endif

#include <stdio.h>
#include <time.h>

namespace {

#ifdef ROBOT_TCM
__attribute__((section(".psram"))) // large and slow; the network has a fast region beside it
#endif
BallDetector detector; // static: its memory is known when the firmware is linked

void report(const char *what, const Patch &patch)
{
    const double probability = static_cast<double>(detector.classify(patch));
    printf("{\"image\": \"%s\", \"ball\": %.4f}\n", what, probability);
}

// Microseconds per patch over about `seconds`; 0 where there is no clock.
double latency_us(const Patch &patch, double seconds)
{
    const clock_t begin = clock();
    clock_t now = begin;
    long runs = 0;
    while (now != static_cast<clock_t>(-1) && runs < 10000000
           && static_cast<double>(now - begin) < seconds * CLOCKS_PER_SEC) {
        for (int i = 0; i < 100; ++i) {
            detector.classify(patch);
        }
        runs += 100;
        now = clock();
    }
    return runs ? 1e6 * static_cast<double>(now - begin) / CLOCKS_PER_SEC / static_cast<double>(runs) : 0.0;
}

} // namespace

int main(int argc, char **argv)
{
#ifdef ROBOT_TCM
    load_tcm();
#endif
    const bool passed = BallDetector::self_test();
    printf("{\"self_test\": %s}\n", passed ? "true" : "false");
    Patch patch;
    draw_ball(patch);
    report("drawn", patch);
    for (int i = 1; i < argc; ++i) {
        if (!read_pgm(argv[i], patch)) {
            fprintf(stderr, "%s: not a 16x16 PGM file\n", argv[i]);
            return 2;
        }
        report(argv[i], patch);
    }
    if (argc > 1) {
        printf("{\"latency_us\": %.3f}\n", latency_us(patch, 0.2));
    }
    return passed ? 0 : 1;
}
