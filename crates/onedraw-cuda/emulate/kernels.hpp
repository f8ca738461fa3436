// Kernels one after the other, some of which begin before the one before them has ended.
//
// A kernel that may begin early does so as soon as every block of the one before has let it, as early as a
// device could. Some blocks pause there, at random, and others go on as far as they can. So a kernel fails
// that reads, before its wait, what the one before has not written yet, or that overwrites what the one
// before has still to read.
#pragma once

#include <link.h>

#include <deque>

#include "threads.hpp"

namespace emulated {

struct Kernel {
    Grid grid;
    // Whether it may begin before the one before has ended.
    bool is_early;
    std::vector<Block*> blocks;
};

// The bytes of memory that nobody has written.
constexpr uint8_t UNWRITTEN = 0xa7;
// Blocks that are kept at once: with 512 threads each, their stacks take 6 GB of address space. A kernel with
// more blocks is run one block at a time, after the one before has ended.
constexpr uint32_t MAX_BLOCKS_AT_ONCE = 96;

// All shared memory: the thread-local memory of this library. Nothing else may be thread-local here.
struct Shared {
    char* start;
    size_t bytes;
};

inline Shared shared_memory() {
    struct Search {
        const void* here;
        Shared found;
    } search = {reinterpret_cast<const void*>(&shared_memory), {}};
    dl_iterate_phdr(
        [](dl_phdr_info* library, size_t, void* data) {
            Search& search = *static_cast<Search*>(data);
            const uintptr_t here = uintptr_t(search.here);
            bool is_own = false;
            for (int i = 0; i < library->dlpi_phnum; i++) {
                const auto& part = library->dlpi_phdr[i];
                const uintptr_t start = library->dlpi_addr + part.p_vaddr;
                is_own |= part.p_type == PT_LOAD && here >= start && here < start + part.p_memsz;
            }
            for (int i = 0; is_own && i < library->dlpi_phnum; i++) {
                if (library->dlpi_phdr[i].p_type == PT_TLS) search.found = {static_cast<char*>(library->dlpi_tls_data), library->dlpi_phdr[i].p_memsz};
            }
            return int(is_own);
        },
        &search);
    if (search.found.start == nullptr) abort();
    return search.found;
}

inline std::vector<std::unique_ptr<Block>> idle_blocks;
// The block whose contents of shared memory are in place.
inline Block* block_in_place;

inline Block* take_block(Grid& grid, Dimensions index) {
    if (idle_blocks.empty()) idle_blocks.emplace_back(new Block{});
    Block* const taken = idle_blocks.back().release();
    idle_blocks.pop_back();
    begin_block(*taken, grid, index);
    return taken;
}

inline uint32_t count_of(const Kernel& kernel) { return kernel.grid.blocks.x * kernel.grid.blocks.y; }

inline Dimensions index_of(const Kernel& kernel, uint32_t number) { return {number % kernel.grid.blocks.x, number / kernel.grid.blocks.x, 0}; }

// Runs a block on, with its own shared memory.
inline void run_on(Block& on) {
    const Shared shared = shared_memory();
    if (block_in_place != &on) {
        if (block_in_place != nullptr && block_in_place->alive > 0) block_in_place->shared.assign(shared.start, shared.start + shared.bytes);
        if (on.shared.empty()) memset(shared.start, UNWRITTEN, shared.bytes);
        else memcpy(shared.start, on.shared.data(), shared.bytes);
        block_in_place = &on;
    }
    run_block(on);
    if (on.alive == 0) block_in_place = nullptr;
}

// Kernels of which each but the first may begin early, and waits only for the one before it.
struct Chain {
    std::vector<Kernel>& kernels;

    bool is_done(size_t i) const {
        for (const Block* block : kernels[i].blocks) {
            if (block->alive > 0) return false;
        }
        return !kernels[i].blocks.empty();
    }

    // Runs a kernel as far as it gets by itself, and then those that it lets begin.
    void begin(size_t i) {
        Kernel& kernel = kernels[i];
        kernel.grid.pauses = i + 1 < kernels.size() && random_number() % 2 == 0;
        kernel.grid.before = i == 0 || is_done(i - 1);
        for (uint32_t number = 0; number < count_of(kernel); number++) kernel.blocks.push_back(take_block(kernel.grid, index_of(kernel, number)));
        go_on(i);
    }

    void go_on(size_t i) {
        for (Block* block : kernels[i].blocks) {
            if (block->alive > 0) run_on(*block);
        }
        if (i + 1 == kernels.size()) return;
        if (is_done(i)) kernels[i + 1].grid.before = 1;
        if (!kernels[i + 1].blocks.empty()) return;
        for (const Block* block : kernels[i].blocks) {
            if (block->alive > 0 && !block->has_let_next_begin) return;
        }
        begin(i + 1);
    }

    void run() {
        begin(0);
        for (size_t i = 0; i < kernels.size(); i++) {
            while (!is_done(i)) {
                size_t begun = i;
                while (begun < kernels.size() && !kernels[begun].blocks.empty()) begun++;
                go_on(i + random_number() % (begun - i));
            }
            for (Block* block : kernels[i].blocks) idle_blocks.emplace_back(block);
        }
    }
};

inline void run_alone(Kernel& kernel) {
    kernel.grid.pauses = false;
    kernel.grid.before = 1;
    std::unique_ptr<Block> block(take_block(kernel.grid, {}));
    const Shared shared = shared_memory();
    for (uint32_t number = 0; number < count_of(kernel); number++) {
        memset(shared.start, UNWRITTEN, shared.bytes);
        begin_block(*block, kernel.grid, index_of(kernel, number));
        run_block(*block);
    }
    idle_blocks.push_back(std::move(block));
}

// What is done in a stream: a kernel, or something else.
struct Work {
    std::shared_ptr<const Kernel> kernel;
    std::function<void()> other;
};

// Does the first work of a queue and removes it; if it is a kernel, those after it that may begin early are
// run with it.
inline void do_first(std::deque<Work>& queue) {
    if (queue.front().kernel == nullptr) {
        const Work work = queue.front();
        queue.pop_front();
        return work.other();
    }
    // Copies, because a graph launches the same kernel again.
    std::vector<Kernel> kernels;
    uint32_t blocks = 0;
    do {
        kernels.push_back(*queue.front().kernel);
        blocks += count_of(kernels.back());
        queue.pop_front();
    } while (!queue.empty() && queue.front().kernel != nullptr && queue.front().kernel->is_early && blocks + count_of(*queue.front().kernel) <= MAX_BLOCKS_AT_ONCE);
    if (blocks > MAX_BLOCKS_AT_ONCE) return run_alone(kernels.front());
    Chain{kernels}.run();
}

}  // namespace emulated
