#include "ball_detector.hpp"

// The network was made for these patches: fail here, not on the robot, if another one is put in.
static_assert(BALL_IMAGE_LEN == Patch::SIZE * Patch::SIZE, "the model takes other images");
static_assert(BALL_SCORES_LEN == 2, "the model does not tell ball from no ball");

#ifdef BALL_FAST_BYTES // with FAST_RAM: what is accessed most lies in DTCM, as all variables do
namespace {
alignas(BALL_WORKSPACE_ALIGN) unsigned char fast[BALL_FAST_BYTES];
}

BallDetector::BallDetector() : net_(fast) {}
#else
BallDetector::BallDetector() {}
#endif

float BallDetector::classify(const Patch &patch)
{
    for (int i = 0; i < BALL_IMAGE_LEN; ++i) {
        net_.image[i] = static_cast<float>(patch.pixels[i]) / 255.0f;
    }
    net_.run();
    return net_.scores[1];
}

bool BallDetector::self_test()
{
    alignas(BALL_WORKSPACE_ALIGN) static unsigned char workspace[BALL_WORKSPACE_BYTES];
#ifdef BALL_FAST_BYTES
    return ball_selftest(workspace, fast) == 0;
#else
    return ball_selftest(workspace) == 0;
#endif
}
