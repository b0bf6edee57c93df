// Grey images of the camera, and their files.
#ifndef ROBOT_IMAGE_HPP
#define ROBOT_IMAGE_HPP

#include <stdint.h>

// A grey image of a fixed size: what the candidate search cuts out of a camera frame.
struct Patch {
    static const int SIZE = 16;
    uint8_t pixels[SIZE * SIZE];
};

// Reads a binary PGM file of Patch::SIZE x Patch::SIZE pixels with 8 bits; false if it is none.
bool read_pgm(const char *path, Patch &patch);

// Draws a bright disc with dark spots on a grey field, for a robot without a camera.
void draw_ball(Patch &patch);

#endif
