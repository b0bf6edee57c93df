/* SPDX-License-Identifier: MIT-0
 *
 * Elementary functions over the vector vocabulary, without libm. Include the
 * vec_*.h headers first: the functions are defined for each width that exists,
 * as T_exp and so on (T = f32x1, f32x4, f32x8, f32x16).
 *
 * NaN gives NaN, zeros keep their signs, infinities give the limits. The bounds hold
 * for every float, with and without fused multiply-add (tests/runtime measures
 * them). On ARMv7 NEON, which flushes subnormals, arguments below 2^-126 may count as
 * zero, and 2^-124 (times |x| in silu and mish) is added to every bound.
 *
 *   function                error at most
 *   T_exp(x)                1.5 ulp
 *   T_exp_normal(x)         1.5 ulp, for -87 <= x <= 88 or NaN
 *   T_expm1(x)              2 ulp
 *   T_log(x)                1.5 ulp; -infinity at 0, NaN below
 *   T_log1p(x)              2 ulp; -infinity at -1, NaN below
 *   T_tanh(x)               6 ulp; at most 1
 *   T_sigmoid(x)            3 ulp
 *   T_erf(x)                2 ulp
 *
 *   composition of f        |error| <= absolute + relative * |f|
 *   T_softplus(x)           5e-38    2.5e-7   log(1 + e^x)
 *   T_elu(x, alpha)         5e-38    2e-7     x for x > 0, else alpha*(e^x - 1)
 *   T_gelu_erf(x)           3e-8     5e-7     x/2 * (1 + erf(x/sqrt(2)))
 *   T_gelu_tanh(x)          5e-8     3e-7     the same with tanh's approximation of erf
 *   T_silu(x)               2e-36    3e-7     x * sigmoid(x)
 *   T_mish(x)               2e-36    4e-7     x * tanh(softplus(x))
 *   T_softsign(x)           5e-38    1.5e-7   x / (1 + |x|)
 *
 *   cell of a recurrent layer, |c| <= 1e8, |h| <= 1e8      absolute  relative to |c|, |h|
 *   T_lstm_cell(i, f, g, c) 5e-7     5e-7     sigmoid(f) * c + sigmoid(i) * tanh(g)
 *   T_sigmoid_tanh(a, x)    5e-7     0        sigmoid(a) * tanh(x)
 *   T_gru_output(z, g, h)   5e-7     5e-7     (1 - sigmoid(z)) * tanh(g) + sigmoid(z) * h
 *
 *   approximation           error
 *   T_tanh_rational(x)      5.2e-5 absolute
 *   T_sigmoid_rational(x)   2.6e-5 absolute
 *   T_exp_schraudolph(x)    3e-2 relative on [-87.3, 88.7], where x is bounded
 *   T_tanh_table(x)         1.4e-6 absolute
 */
#ifndef CANNERY_VEC_MATH_H
#define CANNERY_VEC_MATH_H

#include "vec_scalar.h"

/* tanh(i / 32) */
static CANNERY_UNUSED const float cannery_tanh_table[257] = {
    0.0f, 0.0312398318f, 0.0624187477f, 0.0934763029f, 0.124352999f, 0.154990733f, 0.185333207f,
    0.215326339f, 0.244918659f, 0.27406159f, 0.302709728f, 0.330821127f, 0.3583574f, 0.385283977f,
    0.411570042f, 0.437188774f, 0.462117165f, 0.486336023f, 0.509829998f, 0.53258729f,
    0.554599702f, 0.575862408f, 0.596373558f, 0.616134405f, 0.635148942f, 0.653423607f,
    0.670967102f, 0.687790215f, 0.703905582f, 0.719327509f, 0.734071493f, 0.748154461f,
    0.761594176f, 0.774409175f, 0.786618829f, 0.798242748f, 0.809301078f, 0.819814026f,
    0.829801917f, 0.839285076f, 0.848283648f, 0.856817603f, 0.864906609f, 0.872570038f,
    0.879826725f, 0.886695147f, 0.893193364f, 0.899338722f, 0.905148268f, 0.910638273f,
    0.915824533f, 0.920722306f, 0.925346196f, 0.929710329f, 0.933828056f, 0.937712312f,
    0.941375554f, 0.944829464f, 0.948085308f, 0.951153815f, 0.954045236f, 0.956769347f,
    0.959335268f, 0.961751938f, 0.964027584f, 0.966170192f, 0.968187213f, 0.9700858f,
    0.971872747f, 0.973554373f, 0.975136697f, 0.976625502f, 0.978026092f, 0.979343712f,
    0.980583072f, 0.9817487f, 0.982845008f, 0.98387599f, 0.984845519f, 0.985757172f, 0.986614287f,
    0.987420201f, 0.988177836f, 0.988890171f, 0.98955977f, 0.990189195f, 0.99078083f,
    0.991337001f, 0.991859734f, 0.992351055f, 0.992812812f, 0.993246794f, 0.993654609f,
    0.994037926f, 0.994398117f, 0.994736671f, 0.995054781f, 0.995353699f, 0.995634556f,
    0.995898485f, 0.99614656f, 0.996379554f, 0.996598542f, 0.996804297f, 0.996997654f,
    0.99717927f, 0.997349977f, 0.997510314f, 0.997660995f, 0.997802556f, 0.997935534f,
    0.998060524f, 0.998177886f, 0.998288214f, 0.998391807f, 0.998489201f, 0.998580635f,
    0.998666584f, 0.998747349f, 0.998823166f, 0.998894453f, 0.998961389f, 0.999024272f,
    0.9990834f, 0.999138892f, 0.999191046f, 0.999240041f, 0.999286056f, 0.999329329f,
    0.999369919f, 0.999408066f, 0.999443948f, 0.999477625f, 0.999509275f, 0.999538958f,
    0.999566913f, 0.999593139f, 0.999617815f, 0.999640942f, 0.999662697f, 0.999683142f,
    0.999702334f, 0.999720335f, 0.999737322f, 0.999753237f, 0.999768138f, 0.999782205f,
    0.999795377f, 0.999807775f, 0.999819458f, 0.999830365f, 0.999840677f, 0.999850333f,
    0.999859393f, 0.999867916f, 0.999875903f, 0.999883413f, 0.999890506f, 0.999897122f,
    0.999903321f, 0.999909222f, 0.999914706f, 0.999919891f, 0.999924719f, 0.999929309f,
    0.9999336f, 0.999937594f, 0.999941349f, 0.999944925f, 0.999948263f, 0.999951422f,
    0.999954343f, 0.999957085f, 0.999959707f, 0.999962151f, 0.999964416f, 0.999966621f,
    0.999968648f, 0.999970496f, 0.999972284f, 0.999974012f, 0.999975562f, 0.999977052f,
    0.999978423f, 0.999979734f, 0.999980986f, 0.999982119f, 0.999983191f, 0.999984205f,
    0.999985158f, 0.999986053f, 0.999986947f, 0.999987721f, 0.999988437f, 0.999989152f,
    0.999989808f, 0.999990404f, 0.999991f, 0.999991536f, 0.999992073f, 0.999992549f, 0.999993026f,
    0.999993443f, 0.999993801f, 0.999994218f, 0.999994576f, 0.999994874f, 0.999995172f,
    0.99999547f, 0.999995768f, 0.999996006f, 0.999996245f, 0.999996483f, 0.999996722f,
    0.999996901f, 0.999997079f, 0.999997258f, 0.999997437f, 0.999997556f, 0.999997735f,
    0.999997854f, 0.999997973f, 0.999998093f, 0.999998212f, 0.999998331f, 0.99999845f,
    0.99999851f, 0.999998629f, 0.999998689f, 0.999998808f, 0.999998868f, 0.999998927f,
    0.999998987f, 0.999999046f, 0.999999106f, 0.999999166f, 0.999999225f, 0.999999285f,
    0.999999285f, 0.999999344f, 0.999999404f, 0.999999404f, 0.999999464f, 0.999999464f,
    0.999999523f, 0.999999523f, 0.999999583f, 0.999999583f, 0.999999642f, 0.999999642f,
    0.999999702f, 0.999999702f, 0.999999702f, 0.999999702f, 0.999999762f, 0.999999762f,
    0.999999762f,
};

#endif

#if !defined(CANNERY_VEC_MATH_F32X1)
#define CANNERY_VEC_MATH_F32X1
#define CANNERY_LANES 1
#include "vec_math_body.h"
#undef CANNERY_LANES
#endif

#if !defined(CANNERY_VEC_MATH_F32X4) && defined(CANNERY_HAS_F32X4)
#define CANNERY_VEC_MATH_F32X4
#define CANNERY_LANES 4
#include "vec_math_body.h"
#undef CANNERY_LANES
#endif

#if !defined(CANNERY_VEC_MATH_F32X8) && defined(CANNERY_HAS_F32X8)
#define CANNERY_VEC_MATH_F32X8
#define CANNERY_LANES 8
#include "vec_math_body.h"
#undef CANNERY_LANES
#endif

#if !defined(CANNERY_VEC_MATH_F32X16) && defined(CANNERY_HAS_F32X16)
#define CANNERY_VEC_MATH_F32X16
#define CANNERY_LANES 16
#include "vec_math_body.h"
#undef CANNERY_LANES
#endif
