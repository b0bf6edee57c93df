#include "line_image.h"

#include <stdio.h>

/* Reads the pixels, which come row by row. Returns whether all were there. */
static int read_rows(FILE *file, int32_t width, uint8_t *columns)
{
    for (int32_t y = 0; y < LINE_ROWS; ++y) {
        for (int32_t x = 0; x < width; ++x) {
            const int pixel = fgetc(file);
            if (pixel == EOF) {
                return 0;
            }
            columns[x * LINE_ROWS + y] = (uint8_t)pixel;
        }
    }
    return 1;
}

int32_t line_image_read(const char *path, int32_t longest, uint8_t *columns)
{
    FILE *file = fopen(path, "rb");
    int width = 0, height = 0, largest = 0, good;
    if (!file) {
        return 0;
    }
    good = fscanf(file, "P5 %d %d %d", &width, &height, &largest) == 3 && height == LINE_ROWS
        && width > 0 && width <= longest && largest == 255 && fgetc(file) == '\n'
        && read_rows(file, width, columns);
    fclose(file);
    return good ? width : 0;
}
