// An exception that leaves a callback ends the program with a message: .ci/c looks for it.
#include <cstddef>
#include <cstdint>
#include <cstdio>

#include "onedraw.h"

int main() {
    onedraw_params *params;
    onedraw_beams *beams;
    onedraw_branch branches[4];
    std::size_t count;
    const float logits[] = {0.0f, 1.0f, 2.0f, 3.0f};
    onedraw_rows rows{};
    rows.logits = logits;
    rows.count = 1;
    rows.vocabulary = 4;
    onedraw_params_new(&params, nullptr);
    onedraw_beams_new(params, nullptr, &beams, nullptr);
    try {
        auto throws = [](void *, std::size_t, std::uint32_t) -> onedraw_finish { throw 5; };
        onedraw_beams_step(beams, &rows, throws, nullptr, branches, 4, &count, nullptr);
    } catch (int) {
        std::puts("the exception passed through the library");
    }
    return 0;
}
