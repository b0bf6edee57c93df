#include "ball_detector.hpp"

// The network was made for these patches: fail here, not on the robot, if another one is put in.
static_assert(BALL_IMAGE_LEN == Patch::SIZE * Patch::SIZE, "the model takes other images");
static_assert(BALL_SCORES_LEN == 2, "the model does not tell ball from no ball");

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
    return ball_selftest(workspace) == 0;
}
