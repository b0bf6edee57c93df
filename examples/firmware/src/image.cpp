#include "image.hpp"

#include <stdio.h>

bool read_pgm(const char *path, Patch &patch)
{
    FILE *file = fopen(path, "rb");
    if (!file) {
        return false;
    }
    int width = 0, height = 0, largest = 0;
    const bool header = fscanf(file, "P5 %d %d %d", &width, &height, &largest) == 3
        && fgetc(file) != EOF && width == Patch::SIZE && height == Patch::SIZE && largest == 255;
    const bool complete = header && fread(patch.pixels, sizeof patch.pixels, 1, file) == 1;
    fclose(file);
    return complete;
}

void draw_ball(Patch &patch)
{
    const int centre = Patch::SIZE / 2, radius = 6;
    for (int y = 0; y < Patch::SIZE; ++y) {
        for (int x = 0; x < Patch::SIZE; ++x) {
            const int dx = x - centre, dy = y - centre;
            const bool inside = dx * dx + dy * dy <= radius * radius;
            const bool spot = (dx * dx + dy * dy <= 4) || ((dx + dy) % 7 == 0 && dx * dy > 6);
            patch.pixels[y * Patch::SIZE + x] = inside ? (spot ? 40 : 230) : 90;
        }
    }
}
