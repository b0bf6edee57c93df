/* Local maxima of each row: x where it is greater than its neighbours and ATTR_least, else 0.
 *
 * Cannery defines CUSTOM, the function's name, X0_DIM0, X0_DIM1 ... and Y_SIZE, the shapes, and
 * ATTR_least, the attribute `least` of the node: all of them literal numbers.
 */
static void CUSTOM(const float *x, float *y)
{
    for (int row = 0; row < X0_DIM0; ++row) {
        const float *in = x + row * X0_DIM1;
        float *out = y + row * X0_DIM1;
        for (int k = 0; k < X0_DIM1; ++k) {
            const int left = k == 0 || in[k] > in[k - 1];
            const int right = k == X0_DIM1 - 1 || in[k] > in[k + 1];
            out[k] = left && right && in[k] > ATTR_least ? in[k] : 0.0f;
        }
    }
}
