// Draws eight tokens from one row of logits.
#include <iostream>
#include <vector>

#include "onedraw.hpp"

int main() {
    const std::vector<float> logits{1.5f, 0.2f, 3.1f, -4.0f, 2.6f};
    try {
        onedraw::Params params;
        params.set("temperature", 0.8).set("top_p", 0.9).seed(42);
        onedraw::Sampler sampler(params);
        for (int i = 0; i < 8; i++) std::cout << sampler.sample(logits).token << ' ';
        std::cout << '\n';
    } catch (const onedraw::Error &error) {
        std::cerr << error.what() << '\n';
        return 1;
    }
}
