#include "wav.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { HEADER = 12, CHUNK = 8, FORMAT = 16, PCM = 1, LONGEST = 1 << 28 };

static uint32_t number(const unsigned char *bytes, int size)
{
    uint32_t value = 0;
    for (int k = size - 1; k >= 0; --k) {
        value = value << 8 | bytes[k];
    }
    return value;
}

static void put(unsigned char *bytes, uint32_t value, int size)
{
    for (int k = 0; k < size; ++k, value >>= 8) {
        bytes[k] = (unsigned char)(value & 0xffu);
    }
}

static int32_t read_samples(FILE *file, uint32_t bytes, float **samples)
{
    unsigned char sample[2];
    const int32_t count = (int32_t)(bytes / 2);
    *samples = (float *)malloc((size_t)count * sizeof(float) + 1);
    for (int32_t k = 0; *samples && k < count; ++k) {
        int32_t value;
        if (fread(sample, 1, 2, file) != 2) {
            free(*samples);
            *samples = NULL;
            break;
        }
        value = (int32_t)number(sample, 2);
        (*samples)[k] = (float)(value < 32768 ? value : value - 65536) / 32767.0f;
    }
    return *samples ? count : -1;
}

static int32_t read_chunks(FILE *file, float **samples, uint32_t *rate)
{
    unsigned char head[HEADER], format[FORMAT];
    int known = 0;
    if (fread(head, 1, HEADER, file) != HEADER || memcmp(head, "RIFF", 4) || memcmp(head + 8, "WAVE", 4)) {
        return -1;
    }
    while (fread(head, 1, CHUNK, file) == CHUNK) {
        uint32_t size = number(head + 4, 4);
        if (size > LONGEST) {
            return -1;
        }
        if (!memcmp(head, "data", 4)) {
            return known ? read_samples(file, size, samples) : -1;
        }
        if (!memcmp(head, "fmt ", 4) && size >= FORMAT) {
            if (fread(format, 1, FORMAT, file) != FORMAT) {
                return -1;
            }
            known = number(format, 2) == PCM && number(format + 2, 2) == 1 && number(format + 14, 2) == 16;
            *rate = number(format + 4, 4);
            size -= FORMAT;
        }
        if (fseek(file, (long)(size + (size & 1u)), SEEK_CUR)) { /* chunks have an even size */
            return -1;
        }
    }
    return -1;
}

int32_t wav_read(const char *path, float **samples, uint32_t *rate)
{
    FILE *const file = fopen(path, "rb");
    int32_t count = -1;
    if (file) {
        count = read_chunks(file, samples, rate);
        fclose(file);
    }
    return count;
}

int wav_write(const char *path, const float *samples, int32_t count, uint32_t rate)
{
    unsigned char head[HEADER + CHUNK + FORMAT + CHUNK];
    FILE *const file = fopen(path, "wb");
    int right;
    if (!file) {
        return -1;
    }
    memcpy(head, "RIFF....WAVEfmt ", 16);
    put(head + 4, (uint32_t)count * 2 + sizeof head - 8, 4);
    put(head + 16, FORMAT, 4);
    put(head + 20, PCM, 2);
    put(head + 22, 1, 2);
    put(head + 24, rate, 4);
    put(head + 28, rate * 2, 4);
    put(head + 32, 2, 2);
    put(head + 34, 16, 2);
    memcpy(head + 36, "data", 4);
    put(head + 40, (uint32_t)count * 2, 4);
    right = fwrite(head, 1, sizeof head, file) == sizeof head;
    for (int32_t k = 0; right && k < count; ++k) {
        const float clipped = samples[k] < -1.0f ? -1.0f : samples[k] > 1.0f ? 1.0f : samples[k];
        const float scaled = clipped * 32767.0f;
        const int32_t value = (int32_t)(scaled < 0.0f ? scaled - 0.5f : scaled + 0.5f);
        put(head, (uint32_t)value & 0xffffu, 2);
        right = fwrite(head, 1, 2, file) == 2;
    }
    return fclose(file) == 0 && right ? 0 : -1;
}
