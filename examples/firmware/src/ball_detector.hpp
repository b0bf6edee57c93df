// Decides whether a patch of the camera image shows the ball.
#ifndef ROBOT_BALL_DETECTOR_HPP
#define ROBOT_BALL_DETECTOR_HPP

#include "ball.hpp"
#include "image.hpp"

class BallDetector {
public:
    BallDetector();

    // The probability that the patch shows a ball.
    float classify(const Patch &patch);

    // Whether the network computes here what it computed where it was generated.
    static bool self_test();

private:
    // Holds the network's memory and tensors; weights are constants of the program.
    ball::Net net_;
};

#endif
