/* Sound files of one channel with 16 bits per sample (WAV). */
#ifndef WAV_H
#define WAV_H

#include <stdint.h>

/* Reads `path` as floats from -1 to 1 into memory that the caller frees. Returns how many they are
 * and sets *samples and *rate; -1 if the file cannot be read or is of another kind. */
int32_t wav_read(const char *path, float **samples, uint32_t *rate);

/* Writes `count` samples; what is beyond -1 to 1 is clipped. Returns 0, or -1 if that fails. */
int wav_write(const char *path, const float *samples, int32_t count, uint32_t rate);

#endif
