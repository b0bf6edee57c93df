/* Says when the wake words end in sound files.
 *
 *     wake_word [FILE.wav]...
 *
 * Without files, it listens to those of the folder `sounds`. Exit code 0; 2: a file is bad. */

#include "listener.h"
#include "wav.h"

#include <stdio.h>
#include <stdlib.h>

static listener ears; /* static: its memory is known when the program is linked */

static void listen(const char *path, const float *samples, int32_t count)
{
    int32_t times = 0;
    listener_init(&ears);
    for (int32_t at = 0; at + BANDS_HOP <= count; at += BANDS_HOP) {
        if (listener_hears(&ears, samples + at)) {
            printf("%s: heard at %.2f s\n", path, (double)(at + BANDS_HOP) / BANDS_RATE);
            ++times;
        }
    }
    if (!times) {
        printf("%s: nothing heard\n", path);
    }
}

static int listen_to_file(const char *path)
{
    float *samples = NULL;
    uint32_t rate = 0;
    const int32_t count = wav_read(path, &samples, &rate);
    const int right = count >= 0 && rate == BANDS_RATE;
    if (right) {
        listen(path, samples, count);
    } else {
        fprintf(stderr, "%s: cannot be read, or is not a WAV file of one channel with 16 bits and %d Hz\n", path,
                BANDS_RATE);
    }
    free(samples);
    return right ? 0 : 2;
}

int main(int argc, char **argv)
{
    static const char *const stored[] = {"sounds/hey_cannery.wav", "sounds/others.wav"};
    int result = 0;
    if (argc < 2) {
        return listen_to_file(stored[0]) | listen_to_file(stored[1]);
    }
    for (int k = 1; k < argc; ++k) {
        result |= listen_to_file(argv[k]);
    }
    return result;
}
