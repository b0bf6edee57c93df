/* The checks of vec_words.c for one width, LANES; F(word), I(word), M(word) and the
 * types FT, IT are of that width. Included once per width. */

#define F(word) CANNERY_PASTE(f32x, LANES, _, word)
#define I(word) CANNERY_PASTE(i32x, LANES, _, word)
#define M(word) CANNERY_PASTE(m32x, LANES, _, word)
#define P(word) CANNERY_PASTE(p16x, LANES, _, word)
#define Q(word) CANNERY_PASTE(q8x, LANES, _, word)
#define FT CANNERY_PASTE(f32x, LANES, , )
#define IT CANNERY_PASTE(i32x, LANES, , )
#define PT CANNERY_PASTE(p16x, LANES, , )
#define CHECKS(name) CANNERY_PASTE(check_, LANES, _, name)

/* Expects lane by lane, from arrays a, b, c, k of the enclosing function. */
#define EXPECT(word, value, expected)                                                              \
    do {                                                                                           \
        int lane_;                                                                                 \
        float got_[LANES];                                                                         \
        F(store)(got_, value);                                                                     \
        for (lane_ = 0; lane_ < LANES; ++lane_) {                                                  \
            const int i = lane_;                                                                   \
            expect_float(#word, LANES, i, got_[i], expected);                                      \
        }                                                                                          \
    } while (0)

#define EXPECT_INT(word, value, expected)                                                          \
    do {                                                                                           \
        int lane_;                                                                                 \
        int32_t got_[LANES];                                                                       \
        I(store)(got_, value);                                                                     \
        for (lane_ = 0; lane_ < LANES; ++lane_) {                                                  \
            const int i = lane_;                                                                   \
            expect_int(#word, LANES, i, got_[i], expected);                                        \
        }                                                                                          \
    } while (0)

static void CHECKS(fours)(void)
{
    float *start = guarded_floats(4 * LANES, 0);
    float *end = guarded_floats(4 * LANES, 1);
    FT a, b, c, d;
    int j;
    for (j = 0; j < 4 * LANES; ++j) {
        start[j] = end[j] = (float)(j + 1);
    }
    F(load4)(start, &a, &b, &c, &d);
    EXPECT(load4, a, start[4 * i]);
    EXPECT(load4, b, start[4 * i + 1]);
    EXPECT(load4, c, start[4 * i + 2]);
    EXPECT(load4, d, start[4 * i + 3]);
    F(load4)(end, &a, &b, &c, &d);
    F(store4)(end, d, c, b, a);
    F(store4)(start, b, a, d, c);
    for (j = 0; j < 4 * LANES; ++j) {
        expect_float("store4", LANES, j, end[j], (float)((j ^ 3) + 1));
        expect_float("store4", LANES, j, start[j], (float)((j ^ 1) + 1));
    }
    release_guarded();
}

static void CHECKS(memory)(void)
{
    float *start = guarded_floats(2 * LANES, 0); /* fence below the first element */
    float *end = guarded_floats(2 * LANES, 1);   /* fence beyond the last one */
    float p[2 * LANES + 1];
    FT even, odd;
    int n, j;
    for (j = 0; j < 2 * LANES; ++j) {
        p[j] = start[j] = end[j] = (float)(j + 1);
    }
    EXPECT(load, F(load)(start), p[i]);
    EXPECT(load, F(load)(end + LANES), p[i + LANES]);
    EXPECT(load, F(load)(p + 1), p[i + 1]);
    EXPECT(load_aligned, F(load_aligned)(start), p[i]);
    EXPECT(zero, F(zero)(), 0.0f);
    EXPECT(set1, F(set1)(-2.5f), -2.5f);
    EXPECT(load1, F(load1)(end + 2 * LANES - 1), p[2 * LANES - 1]);
    F(load2)(start, &even, &odd);
    EXPECT(load2, even, p[2 * i]);
    EXPECT(load2, odd, p[2 * i + 1]);
    F(unzip)(F(load)(end), F(load)(start + 1), &even, &odd);
    EXPECT(unzip, even, 2 * i < LANES ? end[2 * i] : start[2 * i - LANES + 1]);
    EXPECT(unzip, odd, 2 * i + 1 < LANES ? end[2 * i + 1] : start[2 * i + 2 - LANES]);
    F(load2)(end, &even, &odd);
    F(store2)(end, odd, even);
    for (j = 0; j < 2 * LANES; ++j) {
        expect_float("store2", LANES, j, end[j], p[j ^ 1]);
    }
    F(store_aligned)(start, F(set1)(9.0f));
    EXPECT(store_aligned, F(load)(start), 9.0f);
    for (n = 0; n <= LANES; ++n) {
        float *last = end + 2 * LANES - n;
        for (j = 0; j < n; ++j) {
            last[j] = (float)(j + 10);
            start[j] = 0.5f;
        }
        start[n] = 0.25f;
        EXPECT(load_n, F(load_n)(last, n), i < n ? (float)(i + 10) : 0.0f);
        F(store_n)(last, F(set1)(7.0f), n);
        F(store_n)(start, F(set1)(7.0f), n);
        for (j = 0; j < n; ++j) {
            expect_float("store_n", LANES, j, last[j], 7.0f);
            expect_float("store_n", LANES, j, start[j], 7.0f);
        }
        expect_float("store_n", LANES, n, start[n], 0.25f);
    }
    /* Literal counts may have code of their own. */
    for (j = 0; j < 2 * LANES; ++j) {
        end[j] = (float)(j + 10);
        start[j] = 0.25f;
    }
    EXPECT(load_n, F(load_n)(end + 2 * LANES - 1, 1), i < 1 ? end[2 * LANES - 1] : 0.0f);
    F(store_n)(end + 2 * LANES - 1, F(set1)(6.0f), 1);
    F(store_n)(start, F(set1)(6.0f), 1);
    expect_float("store_n", LANES, 0, end[2 * LANES - 1], 6.0f);
    expect_float("store_n", LANES, 0, start[0], 6.0f);
    expect_float("store_n", LANES, 1, start[1], 0.25f);
#if LANES >= 2
    EXPECT(load_n, F(load_n)(end + 2 * LANES - 2, 2), i < 2 ? end[2 * LANES - 2 + i] : 0.0f);
    F(store_n)(end + 2 * LANES - 2, F(set1)(8.0f), 2);
    F(store_n)(start, F(set1)(8.0f), 2);
    for (j = 0; j < 2; ++j) {
        expect_float("store_n", LANES, j, end[2 * LANES - 2 + j], 8.0f);
        expect_float("store_n", LANES, j, start[j], 8.0f);
    }
    expect_float("store_n", LANES, 2, start[2], 0.25f);
#endif
    release_guarded();
}

static void CHECKS(strided)(void)
{
    float p[3 * LANES];
    float *end = guarded_floats(2 * LANES - 1, 1); /* stride 2: the last step is not read */
    int32_t k[LANES];
    int j;
    for (j = 0; j < 3 * LANES; ++j) {
        p[j] = (float)(j * j);
    }
    for (j = 0; j < 2 * LANES - 1; ++j) {
        end[j] = (float)j;
    }
    for (j = 0; j < LANES; ++j) {
        k[j] = (j * 7 + 2) % (3 * LANES);
    }
    EXPECT(load_stride, F(load_stride)(end, 2), (float)(2 * i));
    EXPECT(load_stride, F(load_stride)(p, 3), p[3 * i]);
    EXPECT(load_stride, F(load_stride)(p + LANES - 1, -1), p[LANES - 1 - i]);
    EXPECT(lookup, F(lookup)(p, I(load)(k)), p[k[i]]);
    F(store_stride)(p, 3, F(set1)(-1.0f));
    F(store_stride)(p + 3 * (LANES - 1) + 1, -3, F(load)(end));
    for (j = 0; j < LANES; ++j) {
        expect_float("store_stride", LANES, j, p[3 * j], -1.0f);
        expect_float("store_stride", LANES, j, p[3 * j + 1], (float)(LANES - 1 - j));
        expect_float("store_stride", LANES, j, p[3 * j + 2], (float)((3 * j + 2) * (3 * j + 2)));
    }
    release_guarded();
}

static void CHECKS(bytes)(void)
{
    uint8_t *u = guarded_bytes(LANES, 1);
    int8_t s[LANES];
    uint8_t u_out[LANES + 1];
    int8_t s_out[LANES + 1];
    int n, j, first;
    for (first = 0; first < 256; first += LANES) {
        for (j = 0; j < LANES; ++j) {
            u[j] = (uint8_t)(first + j);
            s[j] = (int8_t)(first + j - 128);
        }
        EXPECT(load_u8, F(load_u8)(u), (float)u[i]);
        EXPECT(load_i8, F(load_i8)(s), (float)s[i]);
    }
    for (n = 0; n <= LANES; ++n) {
        uint8_t *last = u + LANES - n;
        EXPECT(load_u8_n, F(load_u8_n)(last, n), i < n ? (float)last[i] : 0.0f);
        EXPECT(load_i8_n, F(load_i8_n)(s, n), i < n ? (float)s[i] : 0.0f);
        memset(u_out, 99, sizeof u_out);
        memset(s_out, 99, sizeof s_out);
        F(store_u8_n)(u_out, F(set1)(3.0f), n);
        F(store_i8_n)(s_out, F(set1)(-3.0f), n);
        for (j = 0; j <= LANES; ++j) {
            expect_int("store_u8_n", LANES, j, u_out[j], j < n ? 3 : 99);
            expect_int("store_i8_n", LANES, j, s_out[j], j < n ? -3 : 99);
        }
        F(put_u8_n)(u_out, F(set1)(2.5f), 40, n);
        F(put_i8_n)(s_out, F(set1)(-2.5f), -7, n);
        for (j = 0; j <= LANES; ++j) {
            expect_int("put_u8_n", LANES, j, u_out[j], j < n ? 42 : 99);
            expect_int("put_i8_n", LANES, j, s_out[j], j < n ? -9 : 99);
        }
        memset(u_out, 99, sizeof u_out);
        memset(s_out, 99, sizeof s_out);
        F(store_u8_n)(u_out, F(set1)(3.0f), n);
        F(store_i8_n)(s_out, F(set1)(-3.0f), n);
        for (j = 0; j <= LANES; ++j) {
            expect_int("store_u8_n", LANES, j, u_out[j], j < n ? 3 : 99);
            expect_int("store_i8_n", LANES, j, s_out[j], j < n ? -3 : 99);
        }
    }
    for (first = 0; first < EDGE_COUNT; ++first) {
        F(store_u8)(u_out, F(set1)(edges[first]));
        F(store_i8)(s_out, F(set1)(edges[first]));
        for (j = 0; j < LANES; ++j) {
            expect_int("store_u8", LANES, j, u_out[j], saturated(edges[first], 0.0f, 255.0f));
            expect_int("store_i8", LANES, j, s_out[j], saturated(edges[first], -128.0f, 127.0f));
        }
    }
    for (first = -1; first <= 1; ++first) {
        F(put_u8)(u_out, F(set1)((float)first * 1e9f), 3);
        F(put_i8)(s_out, F(set1)((float)first * 1e9f), -5);
        for (j = 0; j < LANES; ++j) {
            expect_int("put_u8", LANES, j, u_out[j], first < 0 ? 0 : first ? 255 : 3);
            expect_int("put_i8", LANES, j, s_out[j], first < 0 ? -128 : first ? 127 : -5);
        }
    }
    release_guarded();
}

#if LANES == 4 && defined(CANNERY_HAS_LOW_BYTES)
static void CHECKS(low_bytes)(void)
{
    const int32_t numbers[4] = {-3, 0x12345, 200, -129};
    const i32x4 k = i32x4_load(numbers);
    int n, j;
    for (n = 0; n <= 4; ++n) {
        uint8_t *const u = guarded_bytes(5, 1);
        int8_t *const q = (int8_t *)guarded_bytes(5, 1);
        int16_t *const w = (int16_t *)(void *)guarded_bytes(10, 1);
        i32x4_low_u8_n(u, k, n);
        i32x4_low_i8_n(q, k, n);
        i32x4_low_s16_n(w, k, n);
        if (n == 4) {
            i32x4_low_u8(u, k);
            i32x4_low_i8(q, k);
            i32x4_low_s16(w, k);
        }
        for (j = 0; j < 5; ++j) {
            const int32_t number = j < n ? numbers[j] : 0;
            expect_int("low_u8", 4, j, u[j], (uint8_t)number);
            expect_int("low_i8", 4, j, q[j], (int8_t)number);
            expect_int("low_s16", 4, j, w[j], (int16_t)number);
        }
        release_guarded();
    }
}
#endif

#if LANES > 1
static void CHECKS(put2)(void)
{
    uint8_t u[2 * LANES + 1];
    int8_t q[2 * LANES + 1];
    int16_t w[2 * LANES + 1];
    float values[2 * LANES];
    int j;
    for (j = 0; j < 2 * LANES; ++j) {
        values[j] = j % 5 == 0 ? -1e9f : j % 7 == 0 ? 1e9f : (float)j - 2.5f;
    }
    u[2 * LANES] = 99;
    q[2 * LANES] = 99;
    w[2 * LANES] = 99;
    F(put2_u8)(u, F(load)(values), F(load)(values + LANES), 3);
    F(put2_i8)(q, F(load)(values), F(load)(values + LANES), -5);
    F(put2_s16)(w, F(load)(values), F(load)(values + LANES), 7);
    for (j = 0; j < 2 * LANES; ++j) {
        uint8_t u_one[LANES];
        int8_t q_one[LANES];
        int16_t w_one[LANES];
        F(put_u8)(u_one, F(set1)(values[j]), 3);
        F(put_i8)(q_one, F(set1)(values[j]), -5);
        F(put_s16)(w_one, F(set1)(values[j]), 7);
        expect_int("put2_u8", LANES, j, u[j], u_one[0]);
        expect_int("put2_i8", LANES, j, q[j], q_one[0]);
        expect_int("put2_s16", LANES, j, w[j], w_one[0]);
    }
#if LANES == 4 && defined(__aarch64__)
    f32x4_put2_i8_held(q, f32x4_load(values), f32x4_load(values + 4), -3, 1);
    for (j = 0; j < 8; ++j) {
        const float low = values[j] < -3.0f ? -3.0f : values[j], held = low > 1.0f ? 1.0f : low;
        int8_t one[4];
        f32x4_put_i8(one, f32x4_set1(held), 0);
        expect_int("put2_i8_held", LANES, j, q[j], one[0]);
        values[j] = j % 3 == 0 ? -32000.0f : j % 3 == 1 ? 32000.0f : (float)j + 120.5f;
    }
    f32x4_put2_i8_positive(q, f32x4_load(values), f32x4_load(values + 4));
    for (j = 0; j < 8; ++j) {
        const int expected = j % 3 == 0 ? 0 : j == 2 ? 122 : j == 5 ? 126 : 127;
        expect_int("put2_i8_positive", LANES, j, q[j], expected);
    }
    f32x4_put2_i8_held(q, f32x4_load(values), f32x4_load(values + 4), -128, 127);
    expect_int("put2_i8_held", LANES, 0, q[0], -128);
    expect_int("put2_i8_held", LANES, 1, q[1], 127);
    j = 8;
#endif
    expect_int("put2_u8", LANES, j, u[j], 99);
    expect_int("put2_i8", LANES, j, q[j], 99);
    expect_int("put2_s16", LANES, j, w[j], 99);
}
#endif

static void CHECKS(integers)(void)
{
    const int32_t values[] = {0, 1, -1, 127, -126, 0x7fffff, INT32_MAX, INT32_MIN, 0x3f800000, 77};
    enum { COUNT = sizeof values / sizeof values[0] };
    int32_t a[LANES], b[LANES];
    int turn, j;
    for (turn = 0; turn < COUNT * COUNT; ++turn) {
        IT x, y;
        for (j = 0; j < LANES; ++j) {
            a[j] = values[(turn + j) % COUNT];
            b[j] = values[(turn / COUNT + 3 * j) % COUNT];
        }
        x = I(load)(a);
        y = I(load)(b);
        EXPECT_INT(i32_load, x, a[i]);
        EXPECT_INT(i32_set1, I(set1)(a[0]), a[0]);
        EXPECT_INT(i32_add, I(add)(x, y), wrap((uint32_t)a[i] + (uint32_t)b[i]));
        EXPECT_INT(i32_sub, I(sub)(x, y), wrap((uint32_t)a[i] - (uint32_t)b[i]));
        EXPECT_INT(i32_and, I(and)(x, y), a[i] & b[i]);
        EXPECT_INT(i32_or, I(or)(x, y), a[i] | b[i]);
        EXPECT_INT(i32_xor, I(xor)(x, y), a[i] ^ b[i]);
        EXPECT_INT(i32_min, I(min)(x, y), a[i] < b[i] ? a[i] : b[i]);
        EXPECT_INT(i32_max, I(max)(x, y), a[i] > b[i] ? a[i] : b[i]);
        EXPECT_INT(i32_shl23, I(shl23)(x), wrap((uint32_t)a[i] << 23));
        EXPECT_INT(i32_shr23, I(shr23)(x), wrap((uint32_t)a[i] >> 23));
        EXPECT_INT(i32_sra23, I(sra23)(x), shifted_right(a[i], 23));
        EXPECT_INT(i32_sra1, I(sra1)(x), shifted_right(a[i], 1));
        EXPECT(from_i32, F(from_i32)(x), (float)a[i]);
        EXPECT_INT(as_i32, F(as_i32)(I(as_f32)(x)), a[i]);
    }
    for (turn = -127; turn <= 127; ++turn) {
        const float expected = turn == -127 ? 0.0f : (float)ldexp(1.0, turn);
        EXPECT(pow2i, F(pow2i)(I(set1)(turn)), expected);
    }
}

static void CHECKS(unary)(const float *a)
{
    const FT x = F(load)(a);
    EXPECT(abs, F(abs)(x), fabsf(a[i]));
    EXPECT(neg, F(neg)(x), -a[i]);
    EXPECT(floor, F(floor)(x), floorf(a[i]));
    EXPECT(ceil, F(ceil)(x), ceilf(a[i]));
    EXPECT(trunc, F(trunc)(x), truncf(a[i]));
    EXPECT(round, F(round)(x), nearbyintf(a[i]));
    EXPECT(sqrt, F(sqrt)(x), sqrtf(a[i]));
    EXPECT(as_i32, I(as_f32)(F(as_i32)(x)), a[i]);
    /* Out of range the words promise nothing: compare with themselves there. */
    EXPECT_INT(to_i32, F(to_i32)(x), fits_i32(a[i]) ? (int32_t)a[i] : got_[i]);
    EXPECT_INT(to_i32_round, F(to_i32_round)(x),
               fits_i32(a[i]) ? (int32_t)nearbyintf(a[i]) : got_[i]);
    {
        float got[LANES];
        int j;
        F(store)(got, F(recip_fast)(x));
        for (j = 0; j < LANES; ++j) {
            expect_reciprocal(LANES, a[j], got[j]);
        }
    }
}

static void CHECKS(binary)(const float *a, const float *b, const float *c)
{
    const FT x = F(load)(a);
    const FT y = F(load)(b);
    const FT z = F(load)(c);
    const FT one = F(set1)(1.0f);
    const FT none = F(zero)();
    EXPECT(add, F(add)(x, y), plus(a[i], b[i]));
    EXPECT(sub, F(sub)(x, y), plus(a[i], -b[i]));
    EXPECT(mul, F(mul)(x, y), times(a[i], b[i]));
    EXPECT(div, F(div)(x, y), quotient(a[i], b[i]));
    EXPECT(fma, F(fma)(x, y, z), multiply_add(a[i], b[i], c[i]));
    EXPECT(fnma, F(fnma)(x, y, z), multiply_add(-a[i], b[i], c[i]));
#if LANES == 4 && defined(CANNERY_HAS_SCALAR_FMA)
    EXPECT(fma1, F(fma1)(a[0], y, z), multiply_add(a[0], b[i], c[i]));
#endif
    EXPECT(min, F(min)(x, y), smaller(a[i], b[i], LANES));
    EXPECT(max, F(max)(x, y), larger(a[i], b[i], LANES));
    EXPECT(max_zero, F(max)(none, x), isnan(a[i]) ? a[i] : larger(0.0f, a[i], LANES));
    EXPECT(copysign, F(copysign)(x, y), copysignf(a[i], b[i]));
    EXPECT(lt, F(select)(F(lt)(x, y), one, none), a[i] < b[i] ? 1.0f : 0.0f);
    EXPECT(le, F(select)(F(le)(x, y), one, none), a[i] <= b[i] ? 1.0f : 0.0f);
    EXPECT(gt, F(select)(F(gt)(x, y), one, none), a[i] > b[i] ? 1.0f : 0.0f);
    EXPECT(ge, F(select)(F(ge)(x, y), one, none), a[i] >= b[i] ? 1.0f : 0.0f);
    EXPECT(eq, F(select)(F(eq)(x, y), one, none), a[i] == b[i] ? 1.0f : 0.0f);
    EXPECT(select, F(select)(F(lt)(x, y), x, z), a[i] < b[i] ? a[i] : c[i]);
    EXPECT(mask_and, F(select)(M(and)(F(lt)(x, y), F(lt)(y, z)), one, none),
           a[i] < b[i] && b[i] < c[i] ? 1.0f : 0.0f);
    EXPECT(mask_or, F(select)(M(or)(F(lt)(x, y), F(lt)(y, z)), one, none),
           a[i] < b[i] || b[i] < c[i] ? 1.0f : 0.0f);
    EXPECT(mask_not, F(select)(M(not)(F(lt)(x, y)), one, none), a[i] < b[i] ? 0.0f : 1.0f);
}

/* Folds halves onto each other as vec_scalar.h says. */
static void CHECKS(reductions)(const float *a)
{
    float sum[LANES], most[LANES], least[LANES];
    int half, j;
    for (j = 0; j < LANES; ++j) {
        sum[j] = most[j] = least[j] = a[j];
    }
    for (half = LANES / 2; half > 0; half /= 2) {
        for (j = 0; j < half; ++j) {
            sum[j] = plus(sum[j], sum[j + half]);
            most[j] = most[j] > most[j + half] ? most[j] : most[j + half];
            least[j] = least[j] < least[j + half] ? least[j] : least[j + half];
        }
    }
    expect_float("hsum", LANES, 0, F(hsum)(F(load)(a)), sum[0]);
    expect_float("hmax", LANES, 0, F(hmax)(F(load)(a)), most[0]);
    expect_float("hmin", LANES, 0, F(hmin)(F(load)(a)), least[0]);
}

static void CHECKS(arithmetic)(void)
{
    uint32_t state = 12345u;
    float a[LANES], b[LANES], c[LANES];
    int turn, j;
    for (turn = 0; turn < EDGE_COUNT * EDGE_COUNT; ++turn) {
        for (j = 0; j < LANES; ++j) {
            a[j] = edge(turn + j, LANES);
            b[j] = edge(turn / EDGE_COUNT + 5 * j, LANES);
            c[j] = edge(turn / 3 + 11 * j, LANES);
        }
        CHECKS(unary)(a);
        CHECKS(binary)(a, b, c);
    }
    for (turn = 0; turn < 2000; ++turn) {
        for (j = 0; j < LANES; ++j) {
            a[j] = random_float(&state, turn);
            b[j] = random_float(&state, turn);
            c[j] = random_float(&state, turn);
        }
        CHECKS(unary)(a);
        CHECKS(binary)(a, b, c);
        CHECKS(reductions)(b);
    }
}

/* Weights lie pair by pair, or the first numbers before the second. */
#if defined(CANNERY_PAIRS_APART) && LANES > 1
#define PAIR(i, k) ((k) * LANES + (i))
#else
#define PAIR(i, k) (2 * (i) + (k))
#endif

/* Likewise number k of group i of fours. */
#if defined(CANNERY_TWOS_APART) && LANES > 1
#define FOUR(i, k) ((k) / 2 * 2 * LANES + 2 * (i) + (k) % 2)
#else
#define FOUR(i, k) (4 * (i) + (k))
#endif

/* The place of pair i of the first of two vectors of pairs. */
#define TURN(i) (LANES > 4 ? 8 * ((i) / 4) + (i) % 4 : (i))

static void CHECKS(pairs)(void)
{
    int16_t first[2 * LANES], second[2 * LANES], w[2 * LANES] CANNERY_ALIGN(64);
    int32_t places[2][LANES];
    const int next = LANES > 4 ? 4 : LANES;
    PT a, b;
    IT sum_a, sum_b;
    int j, n;
    for (j = 0; j < 2 * LANES; ++j) {
        first[j] = (int16_t)(1000 * j - 9000);
        second[j] = (int16_t)(j % 2 ? -32768 : 77 * j);
        w[j] = (int16_t)(j % 3 ? 32767 : 5 - 31 * j);
    }
    EXPECT_INT(pair, I(dot)(P(pair)(first, second), P(load)(w), I(set1)(9)),
               9 + first[i] * w[PAIR(i, 0)] + second[i] * w[PAIR(i, 1)]);
    for (n = 0; n <= LANES; ++n) {
        const int16_t *p = first + 2 * LANES - n, *q = second + 2 * LANES - n;
        EXPECT_INT(pair_n, I(dot)(P(pair_n)(p, q, n), P(load)(w), I(zero)()),
                   i < n ? p[i] * w[PAIR(i, 0)] + q[i] * w[PAIR(i, 1)] : 0);
    }
    P(pair2)(first, second, &a, &b);
    sum_a = I(dot)(a, P(load)(w), I(zero)());
    sum_b = I(dot)(b, P(load)(w), I(zero)());
    EXPECT_INT(pair2, sum_a, first[TURN(i)] * w[PAIR(i, 0)] + second[TURN(i)] * w[PAIR(i, 1)]);
    EXPECT_INT(pair2, sum_b,
               first[TURN(i) + next] * w[PAIR(i, 0)] + second[TURN(i) + next] * w[PAIR(i, 1)]);
    for (j = 0; j < LANES; ++j) {
        places[0][j] = TURN(j);
        places[1][j] = TURN(j) + next;
    }
    sum_a = I(load)(places[0]);
    sum_b = I(load)(places[1]);
    I(unturn)(&sum_a, &sum_b);
    EXPECT_INT(unturn, sum_a, i);
    EXPECT_INT(unturn, sum_b, i + LANES);
}

/* Sums and differences of bytes. */
static void CHECKS(words)(void)
{
    uint8_t a[2 * LANES];
    int8_t b[2 * LANES];
    int16_t sum[2 * LANES], difference[2 * LANES];
    int j;
    for (j = 0; j < 2 * LANES; ++j) {
        a[j] = (uint8_t)(255 - 7 * j);
        b[j] = (int8_t)(j % 2 ? -128 + j : 127 - 5 * j);
    }
    P(store)(sum, P(add)(P(load_u8)(a), P(load_i8)(b)));
    P(store)(difference, P(sub)(P(load_u8)(a), P(load_i8)(b)));
    for (j = 0; j < 2 * LANES; ++j) {
        expect_int("p16_add", LANES, j, sum[j], a[j] + b[j]);
        expect_int("p16_sub", LANES, j, difference[j], a[j] - b[j]);
    }
}

static void CHECKS(products)(void)
{
    int16_t w[2 * LANES] CANNERY_ALIGN(64), words[LANES + 1];
    int8_t q[4 * LANES] CANNERY_ALIGN(64);
    int32_t acc[LANES], table[64];
    const int16_t x[2] = {-32767, 32767};
    const int8_t four[4] = {-127, 127, -3, 5}, low[4] = {-128, 127, -128, -1};
    int8_t all[4 * LANES] CANNERY_ALIGN(64);
    const float far[6] = {-40000.0f, 40000.0f, 2.5f, -3.5f, 32767.4f, 1e9f};
    int j, n;
    for (j = 0; j < 2 * LANES; ++j) {
        w[j] = (int16_t)(j % 3 == 0 ? -32767 : 1111 * j);
    }
    for (j = 0; j < 4 * LANES; ++j) {
        q[j] = (int8_t)(j % 3 == 0 ? -127 : j % 5 == 0 ? 127 : 3 * j - 90);
        all[j] = (int8_t)(j % 3 == 0 ? -128 : 127);
    }
    (void)all;
    for (j = 0; j < LANES; ++j) {
        acc[j] = 1000 * j - 5;
    }
    for (j = 0; j < 64; ++j) {
        table[j] = (j - 32) * 65536 * 1000 + (j % 2 ? 65535 - 7 * j : 321 * j);
    }
    EXPECT_INT(zero, I(zero)(), 0);
    EXPECT_INT(dot, I(dot)(P(load1)(x), P(load)(w), I(set1)(7)),
               7 + 32767 * (w[PAIR(i, 1)] - w[PAIR(i, 0)]));
    EXPECT_INT(dot, I(dot)(P(load1_n)(x, 1), P(load)(w), I(load)(acc)),
               acc[i] - 32767 * w[PAIR(i, 0)]);
    EXPECT_INT(dot4, I(dot4)(Q(load1)(four), Q(load)(q), I(load)(acc)),
               acc[i] - 127 * q[FOUR(i, 0)] + 127 * q[FOUR(i, 1)] - 3 * q[FOUR(i, 2)] +
                   5 * q[FOUR(i, 3)]);
    EXPECT_INT(dot4, I(dot4)(Q(load1_n)(four, 3), Q(load)(q), I(zero)()),
               -127 * q[FOUR(i, 0)] + 127 * q[FOUR(i, 1)] - 3 * q[FOUR(i, 2)]);
    EXPECT_INT(dot4, I(dot4)(Q(load1)(low), Q(load)(q), I(load)(acc)),
               acc[i] - 128 * q[FOUR(i, 0)] + 127 * q[FOUR(i, 1)] - 128 * q[FOUR(i, 2)] -
                   q[FOUR(i, 3)]);
    EXPECT_INT(dot4, I(dot4)(Q(flip)(Q(load1)(low)), Q(load)(q), I(zero)()),
               -q[FOUR(i, 1)] + 127 * q[FOUR(i, 3)]);
#if defined(CANNERY_HAS_LANE_DOT) || !defined(CANNERY_PAIRS_APART)
    EXPECT_INT(dot4w, I(dot4w)(Q(load1)(low), Q(load)(all), I(load)(acc)),
               acc[i] - 128 * all[FOUR(i, 0)] + 127 * all[FOUR(i, 1)] - 128 * all[FOUR(i, 2)] -
                   all[FOUR(i, 3)]);
#endif
#if !defined(CANNERY_PAIRS_APART)
    for (j = 0; j < 4 * LANES; ++j) {
        all[j] = (int8_t)(j % 3 == 0 ? -64 : 64);
    }
    EXPECT_INT(dot4u, I(dot4u)(Q(load1)(low), Q(load)(all), I(load)(acc)),
               acc[i] + 128 * all[4 * i] + 127 * all[4 * i + 1] + 128 * all[4 * i + 2] + 255 * all[4 * i + 3]);
#endif
    EXPECT_INT(sra14, I(sra14)(I(set1)(-16385)), -2);
    EXPECT_INT(lookup, I(lookup)(table + 32, I(sra14)(I(set1)(-3 * 16384))), table[29]);
    for (j = 0; j < 64; ++j) {
        EXPECT_INT(interpolate, I(interpolate)(I(set1)(table[j]), I(set1)(16383 - j)),
                   (table[j] >> 16) * 16384 + (int16_t)(table[j] & 0xffff) * (16383 - j));
    }
    for (j = 0; j < 6; ++j) {
        F(store_s16)(words, F(set1)(far[j]));
        expect_int("store_s16", LANES, j, words[LANES - 1],
                   saturated(far[j], -32768.0f, 32767.0f));
    }
    for (j = -1; j <= 1; ++j) {
        F(put_s16)(words, F(set1)((float)j * 1e9f), 300);
        expect_int("put_s16", LANES, j, words[LANES - 1], j < 0 ? -32768 : j ? 32767 : 300);
    }
    for (n = 0; n <= LANES; ++n) {
        EXPECT(load_s16_n, F(load_s16_n)(w, n), i < n ? (float)w[i] : 0.0f);
        memset(words, 9, sizeof words);
        F(store_s16_n)(words, F(set1)(-300.0f), n);
        for (j = 0; j <= LANES; ++j) {
            expect_int("store_s16_n", LANES, j, words[j], j < n ? -300 : 0x0909);
        }
        memset(words, 9, sizeof words);
        F(put_s16_n)(words, F(set1)(-2.5f), -700, n);
        for (j = 0; j <= LANES; ++j) {
            expect_int("put_s16_n", LANES, j, words[j], j < n ? -702 : 0x0909);
        }
    }
    EXPECT(load_s16, F(load_s16)(w), (float)w[i]);
}

#if defined(CANNERY_HAS_MULHI) || (LANES == 1 && !defined(CANNERY_OWN_PAIRS))
#define HAS_BYTE_PAIRS 1
/* Pairs of bytes, on x86 and one by one. */
static void CHECKS(byte_pairs)(void)
{
    int8_t first[2 * LANES], second[2 * LANES];
    uint8_t above[2 * LANES], below[2 * LANES];
    int16_t w[2 * LANES] CANNERY_ALIGN(64);
    const int next = LANES > 4 ? 4 : LANES;
    PT a, b;
    int j, n;
    for (j = 0; j < 2 * LANES; ++j) {
        first[j] = (int8_t)(j % 5 ? 9 * j - 128 : 127);
        second[j] = (int8_t)(j % 2 ? -128 : 7 * j - 60);
        above[j] = (uint8_t)(j % 3 ? 8 * j : 255);
        below[j] = (uint8_t)(255 - 11 * j % 256);
        w[j] = (int16_t)(j % 3 ? 127 : 5 - 31 * j);
    }
    EXPECT_INT(pair_i8, I(dot)(P(pair_i8)(first, second), P(load)(w), I(set1)(9)),
               9 + first[i] * w[2 * i] + second[i] * w[2 * i + 1]);
    EXPECT_INT(pair_u8, I(dot)(P(pair_u8)(above, below), P(load)(w), I(set1)(9)),
               9 + above[i] * w[2 * i] + below[i] * w[2 * i + 1]);
    for (n = 0; n <= LANES; ++n) {
        const int8_t *p = first + 2 * LANES - n, *q = second + 2 * LANES - n;
        const uint8_t *r = above + 2 * LANES - n, *s = below + 2 * LANES - n;
        EXPECT_INT(pair_i8_n, I(dot)(P(pair_i8_n)(p, q, n), P(load)(w), I(zero)()),
                   i < n ? p[i] * w[2 * i] + q[i] * w[2 * i + 1] : 0);
        EXPECT_INT(pair_u8_n, I(dot)(P(pair_u8_n)(r, s, n), P(load)(w), I(zero)()),
                   i < n ? r[i] * w[2 * i] + s[i] * w[2 * i + 1] : 0);
    }
    P(pair2_i8)(first, second, &a, &b);
    EXPECT_INT(pair2_i8, I(dot)(a, P(load)(w), I(zero)()),
               first[TURN(i)] * w[2 * i] + second[TURN(i)] * w[2 * i + 1]);
    EXPECT_INT(pair2_i8, I(dot)(b, P(load)(w), I(zero)()),
               first[TURN(i) + next] * w[2 * i] + second[TURN(i) + next] * w[2 * i + 1]);
    P(pair2_u8)(above, below, &a, &b);
    EXPECT_INT(pair2_u8, I(dot)(a, P(load)(w), I(zero)()),
               above[TURN(i)] * w[2 * i] + below[TURN(i)] * w[2 * i + 1]);
    EXPECT_INT(pair2_u8, I(dot)(b, P(load)(w), I(zero)()),
               above[TURN(i) + next] * w[2 * i] + below[TURN(i) + next] * w[2 * i + 1]);
}

#endif

#if LANES == 1 || defined(CANNERY_HAS_MULHI)
/* vec_fixed.h on x86: high halves of products, shifts, and several vectors narrowed at once. */
static void CHECKS(high_halves)(void)
{
    static const int32_t sums[] = {0, 1, -1, 2, -3, 255, -256, (1 << 20) + 1, -(1 << 20) - 1,
                                   0x7fffffff, -0x7fffffff, 123456789, -76543210};
    static const int32_t factors[] = {0, 1, 1 << 30, (1 << 30) + 1, 0x7fffffff, 0x55555555, 77777};
    int32_t a[LANES], b[LANES + 1], r[LANES];
    int j, round;
    for (round = 0; round < 91; ++round) {
        for (j = 0; j < LANES; ++j) {
            a[j] = sums[(round + 2 * j) % 13];
            r[j] = (round + j) % 32;
        }
        for (j = 0; j <= LANES; ++j) {
            b[j] = factors[(round / 13 + j) % 7];
        }
        EXPECT_INT(mulhi, I(mulhi)(I(load)(a), b), (int32_t)((int64_t)a[i] * b[i] >> 32));
        EXPECT_INT(sll, I(sll)(I(load)(a), 5), (int32_t)((uint32_t)a[i] << 5));
        EXPECT_INT(sra, I(sra)(I(load)(a), 5), a[i] >> 5);
        EXPECT_INT(outward, I(outward)(I(sra)(I(load)(a), 1), I(load)(r)),
                   (a[i] >> 1) + ((a[i] >> 1) > 0 ? r[i] : (a[i] >> 1) < 0 ? -r[i] : 0));
#if LANES != 4 || defined(CANNERY_HAS_SRAV)
        EXPECT_INT(srav, I(srav)(I(load)(a), I(load)(r)), a[i] >> r[i]);
#endif
    }
#if LANES == 4 || LANES == 8
    {
        uint8_t u[4 * LANES + 1];
        int8_t s[4 * LANES + 1];
        int16_t w[2 * LANES + 1];
        int32_t all[4 * LANES];
        IT v[4];
        int count;
        for (j = 0; j < 4 * LANES; ++j) {
            all[j] = j % 7 == 6 ? 40000 * (j % 2 ? 1 : -1) : j % 3 == 2 ? 9 * j - 150 : 5 * j - 80;
        }
        for (j = 0; j < 4; ++j) {
            v[j] = I(load)(all + j * LANES);
        }
        for (count = 2; count <= 4; count += 2) {
            memset(u, 99, sizeof u);
            memset(s, 99, sizeof s);
            memset(w, 99, sizeof w);
            if (count == 2) {
                I(store2_u8)(u, v[0], v[1]);
                I(store2_i8)(s, v[0], v[1]);
                I(store2_s16)(w, v[0], v[1]);
            } else {
                I(store4_u8)(u, v[0], v[1], v[2], v[3]);
                I(store4_i8)(s, v[0], v[1], v[2], v[3]);
            }
            for (j = 0; j <= count * LANES; ++j) {
                const int there = j < count * LANES;
                expect_int("i32 store2_u8, 4", LANES, j, u[j], there ? held(all[j], 0, 255) : 99);
                expect_int("i32 store2_i8, 4", LANES, j, s[j], there ? held(all[j], -128, 127) : 99);
                if (count == 2) {
                    expect_int("i32 store2_s16", LANES, j, w[j],
                               there ? held(all[j], -32768, 32767) : 0x6363);
                }
            }
        }
    }
#endif
}
#endif

/* vec_fixed.h: sums of all sizes, times factors, and narrowed. */
static void CHECKS(fixed)(void)
{
    static const int32_t sums[] = {0, 1, -1, 2, -3, 5, -8, 255, -256, 1 << 20, -(1 << 20) - 1,
                                   0x3fffffff, -0x3fffffff, 12345678, -7654321};
    static const int32_t factors[] = {0, 1 << 30, (1 << 30) + 1, 0x7fffffff, 0x55555555};
    int32_t a[LANES], b[LANES], h[LANES], r[LANES], shifts[LANES];
    int64_t bits[LANES];
    double reals[LANES];
    uint8_t u[LANES + 1];
    int8_t s[LANES + 1];
    int16_t w[LANES + 1];
    int j, n, round;
    for (round = 0; round < 300; ++round) {
        for (j = 0; j < LANES; ++j) {
            a[j] = sums[(round + 2 * j) % 15];
            b[j] = factors[(round / 15 + j) % 5];
            shifts[j] = (round + j) % 31;
            r[j] = 1 + shifts[j];
            h[j] = 1 << (shifts[j] < 29 ? shifts[j] : 29);
            reals[j] = (round % 7 - 3) * 0.1 / (1 + (round + j) % 9);
            reals[j] = round % 5 ? reals[j] : round % 2 ? 0.5 : 0.25;
            memcpy(&bits[j], &reals[j], sizeof bits[j]);
        }
        EXPECT_INT(high, I(high)(I(load)(a), I(load)(b)),
                   (int32_t)(((int64_t)a[i] * b[i] + (1 << 30)) >> 31));
        EXPECT_INT(shifted, I(shifted)(I(load)(a), I(load)(h), I(load)(r)),
                   (int32_t)(((int64_t)a[i] + h[i] - (a[i] < 0)) >> r[i]));
        EXPECT_INT(times_double, I(times_double)(I(load)(a), bits),
                   (int32_t)round_away((double)a[i] * reals[i]));
    }
    for (round = 0; round < 15; ++round) {
        const int32_t k = sums[round];
        for (n = 0; n <= LANES; ++n) {
            memset(u, 99, sizeof u);
            memset(s, 99, sizeof s);
            memset(w, 99, sizeof w);
            I(store_u8_n)(u, I(set1)(k), n);
            I(store_i8_n)(s, I(set1)(k), n);
            I(store_s16_n)(w, I(set1)(k), n);
            for (j = 0; j <= LANES; ++j) {
                expect_int("i32 store_u8_n", LANES, j, u[j], j < n ? held(k, 0, 255) : 99);
                expect_int("i32 store_i8_n", LANES, j, s[j], j < n ? held(k, -128, 127) : 99);
                expect_int("i32 store_s16_n", LANES, j, w[j],
                           j < n ? held(k, -32768, 32767) : 0x6363);
            }
        }
        I(store_u8)(u, I(set1)(k));
        I(store_i8)(s, I(set1)(k));
        I(store_s16)(w, I(set1)(k));
        for (j = 0; j < LANES; ++j) {
            expect_int("i32 store_u8", LANES, j, u[j], held(k, 0, 255));
            expect_int("i32 store_i8", LANES, j, s[j], held(k, -128, 127));
            expect_int("i32 store_s16", LANES, j, w[j], held(k, -32768, 32767));
        }
    }
}

/* Every finite float16, also next to an inaccessible page. */
static void CHECKS(halves)(void)
{
    uint16_t *const p = (uint16_t *)guarded(2 * LANES, 1);
    int first, n, j;
    for (first = 0; first < 65536; first += LANES) {
        for (j = 0; j < LANES; ++j) {
            const int bits = first + j;
            p[j] = (uint16_t)((bits & 0x7c00) == 0x7c00 ? bits & 0x83ff : bits);
        }
        EXPECT(load_f16, F(load_f16)(p), half_value(p[i]));
        EXPECT(load1_f16, F(load1_f16)(p + LANES - 1), half_value(p[LANES - 1]));
    }
    for (n = 0; n <= LANES; ++n) {
        EXPECT(load_f16_n, F(load_f16_n)(p + LANES - n, n),
               i < n ? half_value(p[LANES - n + i]) : 0.0f);
    }
    release_guarded();
}

static void CHECKS(all)(void)
{
    CHECKS(fixed)();
#if defined(HAS_BYTE_PAIRS)
    CHECKS(byte_pairs)();
#endif
#if LANES == 1 || defined(CANNERY_HAS_MULHI)
    CHECKS(high_halves)();
#endif
    CHECKS(halves)();
    CHECKS(pairs)();
    CHECKS(words)();
    CHECKS(products)();
    CHECKS(memory)();
    CHECKS(fours)();
    CHECKS(strided)();
    CHECKS(bytes)();
#if LANES == 4 && defined(CANNERY_HAS_LOW_BYTES)
    CHECKS(low_bytes)();
#endif
#if LANES > 1
    CHECKS(put2)();
#endif
    CHECKS(integers)();
    CHECKS(arithmetic)();
}

#undef F
#undef I
#undef M
#undef P
#undef Q
#undef PAIR
#undef HAS_BYTE_PAIRS
#undef FOUR
#undef TURN
#undef FT
#undef IT
#undef PT
#undef CHECKS
#undef EXPECT
#undef EXPECT_INT
