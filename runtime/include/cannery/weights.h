/* SPDX-License-Identifier: MIT-0
 *
 * Weights that lie apart from the code of a network: the file's head, and what is checked before any
 * number is read. <name>_weights_set and <name>_weights_open return these codes.
 */
#ifndef CANNERY_WEIGHTS_H
#define CANNERY_WEIGHTS_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* The head of a file, in the order of the processor's bytes; then come the numbers.
 *    0  "CNWEIGHT"
 *    8  uint32 0x01020304
 *   12  uint32 version of this head
 *   16  uint64 sum of all that follows, to the end of the file (cannery_weights_sum)
 *   24  uint64 bytes of the numbers, a multiple of 64
 *   32  16 characters, the hash of the code that reads them
 *   48  16 characters, the hash of the model that they are from, and zeros to the end of the head */
#define CANNERY_WEIGHTS_HEAD 128u
#define CANNERY_WEIGHTS_VERSION 1u
#define CANNERY_WEIGHTS_ORDER 0x01020304u
#define CANNERY_WEIGHTS_ALIGN 64u
#define CANNERY_WEIGHTS_NAME_AT 48

enum {
    CANNERY_WEIGHTS_OK = 0,
    CANNERY_WEIGHTS_MISSING = 1,   /* no file, or no address */
    CANNERY_WEIGHTS_ALIGNMENT = 2, /* the address is not a multiple of CANNERY_WEIGHTS_ALIGN */
    CANNERY_WEIGHTS_FOREIGN = 3,   /* not a file of weights */
    CANNERY_WEIGHTS_ENDIAN = 4,    /* made for processors with another order of bytes */
    CANNERY_WEIGHTS_FORMAT = 5,    /* made by another version of Cannery, whose files differ */
    CANNERY_WEIGHTS_NETWORK = 6,   /* made for other code than this */
    CANNERY_WEIGHTS_SIZE = 7,      /* cut off, or something was appended */
    CANNERY_WEIGHTS_DAMAGED = 8    /* a byte has changed */
};

/* What a code means, and what to do. */
static inline const char *cannery_weights_reason(int code)
{
    switch (code) {
    case CANNERY_WEIGHTS_OK:
        return "these are weights of this network";
    case CANNERY_WEIGHTS_MISSING:
        return "there are no weights; give the file that `cannery compile --weights` wrote";
    case CANNERY_WEIGHTS_ALIGNMENT:
        return "the weights must begin at a multiple of 64 bytes; align them";
    case CANNERY_WEIGHTS_FOREIGN:
        return "not a file of weights; give the one that `cannery compile --weights` wrote";
    case CANNERY_WEIGHTS_ENDIAN:
        return "weights for another order of bytes; make them for this processor";
    case CANNERY_WEIGHTS_FORMAT:
        return "weights of another version of Cannery; make them with the one that made the code";
    case CANNERY_WEIGHTS_NETWORK:
        return "weights for other code than this; make them with `cannery weights MODEL --for` its manifest";
    case CANNERY_WEIGHTS_SIZE:
        return "the weights are cut off, or something was appended; copy the file again";
    case CANNERY_WEIGHTS_DAMAGED:
        return "the weights are damaged; copy the file again";
    default:
        return "unknown code";
    }
}

/* The sum of all words of 8 bytes, each mixed with its place as by splitmix64: no two values of a word
 * are mixed alike, so one word that changed always shows. */
static inline uint64_t cannery_weights_sum(const unsigned char *data, size_t bytes)
{
    uint64_t sum = 0, place = 0;
    for (size_t k = 0; k + 8u <= bytes; k += 8u) {
        uint64_t z;
        memcpy(&z, data + k, sizeof(z));
        place += 0x9e3779b97f4a7c15u;
        z += place;
        z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
        z = (z ^ z >> 27) * 0x94d049bb133111ebu;
        sum += z ^ z >> 31;
    }
    return sum;
}

/* Whether memory holds weights of `expected` bytes for the code with this hash. Reads `bytes` of it
 * at most. */
static inline int cannery_weights_check(const void *data, size_t bytes, uint64_t expected, const char *hash)
{
    const unsigned char *head;
    uint32_t words[2]; /* order, version */
    uint64_t sizes[2]; /* sum, bytes */
    size_t address;
    if (!data) {
        return CANNERY_WEIGHTS_MISSING;
    }
    memcpy(&address, &data, sizeof(address));
    if (address % CANNERY_WEIGHTS_ALIGN) {
        return CANNERY_WEIGHTS_ALIGNMENT;
    }
    memcpy(&head, &data, sizeof(head));
    if (bytes < CANNERY_WEIGHTS_HEAD || memcmp(head, "CNWEIGHT", 8) != 0) {
        return CANNERY_WEIGHTS_FOREIGN;
    }
    memcpy(words, head + 8, sizeof(words));
    memcpy(sizes, head + 16, sizeof(sizes));
    if (words[0] != CANNERY_WEIGHTS_ORDER) {
        return words[0] == 0x04030201u ? CANNERY_WEIGHTS_ENDIAN : CANNERY_WEIGHTS_FOREIGN;
    }
    if (words[1] != CANNERY_WEIGHTS_VERSION) {
        return CANNERY_WEIGHTS_FORMAT;
    }
    if (memcmp(head + 32, hash, 16) != 0) {
        return CANNERY_WEIGHTS_NETWORK;
    }
    if (sizes[1] != expected || bytes - CANNERY_WEIGHTS_HEAD != expected) {
        return CANNERY_WEIGHTS_SIZE;
    }
    return cannery_weights_sum(head + 24, bytes - 24u) == sizes[0] ? CANNERY_WEIGHTS_OK
                                                                   : CANNERY_WEIGHTS_DAMAGED;
}

/* The numbers as generated code reads them. */
#if defined(__GNUC__)
#define CANNERY_WEIGHTS_AT(base) ((const unsigned char *)__builtin_assume_aligned(base, CANNERY_WEIGHTS_ALIGN))
#else
#define CANNERY_WEIGHTS_AT(base) (base)
#endif

#endif
