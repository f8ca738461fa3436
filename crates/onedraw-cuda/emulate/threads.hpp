// Thread blocks of a GPU on one thread of the CPU. Each GPU thread has a stack of its own, and runs until it
// must wait for others: at a barrier, or for the other lanes of its warp.
//
// Which thread runs next is nearly random, so that code which relies on an order is likely to fail. If all
// threads of a block wait, the program says so and ends.
#pragma once

#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>

#include <functional>
#include <memory>
#include <vector>

struct Dimensions {
    uint32_t x, y, z;
};

// CUDA's variables, for whichever thread runs.
inline Dimensions threadIdx, blockIdx, blockDim, gridDim;

namespace emulated {

constexpr uint32_t LANES = 32;
// Bytes of a thread's stack. The kernels need a few KB.
constexpr size_t STACK_BYTES = 128 << 10;

// A number that changes when something happens that threads wait for.
typedef uint32_t Turn;

// Why threads wait for each other: all threads of a block or of a warp must wait for the same reason.
enum Meeting : uint32_t { BARRIER, COUNT, ANY_OR_ALL, SHUFFLE, BALLOT, SUM, LARGEST, WARP };
// The value of the lowest word of every stack.
constexpr uint64_t STACK_CANARY = 0x9ae16a3b2f90404full;

struct Thread {
    jmp_buf at;
    ucontext_t start;
    uint32_t number;
    const Turn* awaited;
    Turn since;
    bool is_done;
    // Asynchronous copies that have not been waited for yet, and how many of them were committed.
    std::vector<std::function<void()>> copies;
    size_t committed;
    // The lowest word of the stack: a thread that needs more stack than there is overwrites it.
    uint64_t* stack_canary;
};

struct Warp {
    Turn turn;
    uint32_t arrived;
    Meeting meeting;
    // What the lanes brought to this meeting and to the one before: no lane is two meetings behind.
    uint64_t values[2][LANES];
};

// The blocks of a kernel, and what the kernel needs of the one before it.
struct Grid {
    Dimensions blocks;
    uint32_t threads;
    std::function<void()> kernel;
    // Whether a block pauses where it lets the next kernel begin.
    bool pauses = false;
    // It changes once the kernel before has ended.
    Turn before = 0;
};

struct Block {
    Grid* grid;
    Dimensions index;
    std::vector<std::unique_ptr<Thread>> threads;
    Turn turn;
    uint32_t arrived, alive;
    Meeting meeting;
    // For how many threads the condition of a barrier was true, so far and at the last two barriers.
    uint32_t true_count, last_true_counts[2];
    std::vector<Warp> warps;
    // Whether a thread of the block has let the next kernel begin.
    bool has_let_next_begin;
    // The block's shared memory, while another block runs.
    std::vector<char> shared;
};

inline Thread* running;
inline Block* block;
inline bool is_paused;
inline jmp_buf scheduler;
inline ucontext_t beginning;
inline uint64_t random_state = 0x9e3779b97f4a7c15ull;

inline uint32_t random_number() {
    random_state = random_state * 6364136223846793005ull + 1442695040888963407ull;
    return uint32_t(random_state >> 33);
}

inline void yield_to_scheduler() {
    if (_setjmp(running->at) == 0) _longjmp(scheduler, 1);
}

inline void wait_for(const Turn& turn) {
    running->awaited = &turn;
    running->since = turn;
    yield_to_scheduler();
}

// A thread never ends: when its block is done, it is given work of another block.
inline void thread_main() {
    while (true) {
        yield_to_scheduler();
        block->grid->kernel();
        running->is_done = true;
    }
}

inline void resume(Thread& thread) {
    running = &thread;
    threadIdx = {thread.number, 0, 0};
    if (_setjmp(scheduler) == 0) _longjmp(thread.at, 1);
}

inline void add_threads(Block& to, uint32_t count) {
    while (to.threads.size() < count) {
        to.threads.emplace_back(new Thread{});
        Thread& thread = *to.threads.back();
        thread.number = uint32_t(to.threads.size() - 1);
        void* const stack = mmap(nullptr, STACK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (stack == MAP_FAILED) {
            perror("emulated: a stack");
            abort();
        }
        thread.stack_canary = static_cast<uint64_t*>(stack);
        *thread.stack_canary = STACK_CANARY;
        getcontext(&thread.start);
        thread.start.uc_stack.ss_sp = stack;
        thread.start.uc_stack.ss_size = STACK_BYTES;
        makecontext(&thread.start, thread_main, 0);
        running = &thread;
        // Run the thread up to its first yield.
        if (_setjmp(scheduler) == 0) swapcontext(&beginning, &thread.start);
    }
}

// Makes a block ready to begin.
inline void begin_block(Block& begun, Grid& grid, Dimensions index) {
    add_threads(begun, grid.threads);
    begun.grid = &grid;
    begun.index = index;
    begun.turn = begun.arrived = begun.true_count = 0;
    begun.alive = grid.threads;
    begun.warps.assign((grid.threads + LANES - 1) / LANES, {});
    begun.has_let_next_begin = false;
    begun.shared.clear();
    for (uint32_t i = 0; i < grid.threads; i++) {
        begun.threads[i]->awaited = nullptr;
        begun.threads[i]->is_done = false;
    }
}

inline void release() {
    block->last_true_counts[block->turn & 1] = block->true_count;
    block->true_count = block->arrived = 0;
    block->turn++;
}

[[noreturn]] inline void fail(const char* what) {
    fprintf(stderr, "emulated: block %u, %u of %u threads: %s\n", blockIdx.x, blockIdx.y, blockDim.x, what);
    abort();
}

// Waits for all threads of the block that have not ended; returns for how many of them the condition was
// true.
inline uint32_t meet(Meeting meeting, bool is_true) {
    const Turn turn = block->turn;
    if (block->arrived > 0 && block->meeting != meeting) fail("threads meet at different barriers");
    block->meeting = meeting;
    block->true_count += is_true;
    if (++block->arrived == block->alive) release();
    else wait_for(block->turn);
    return block->last_true_counts[turn & 1];
}

// Waits for all lanes of the warp; returns what each of them brought.
inline const uint64_t* meet_warp(Meeting meeting, uint32_t mask, uint64_t value) {
    if (mask != 0xffffffffu) fail("a part of a warp meets, which is not emulated");
    Warp& warp = block->warps[running->number / LANES];
    if (warp.arrived > 0 && warp.meeting != meeting) fail("lanes meet for different things");
    warp.meeting = meeting;
    uint64_t* const values = warp.values[warp.turn & 1];
    values[running->number % LANES] = value;
    if (++warp.arrived == LANES) {
        warp.arrived = 0;
        warp.turn++;
    } else wait_for(warp.turn);
    return values;
}

// The first thread that comes here speaks for its block.
inline void let_next_begin() {
    if (block->has_let_next_begin) return;
    block->has_let_next_begin = true;
    if (!block->grid->pauses) return;
    is_paused = true;
    yield_to_scheduler();
}

inline void wait_for_previous() {
    if (block->grid->before == 0) wait_for(block->grid->before);
}

// Runs a block until it has ended, pauses, or waits for the kernel before.
inline void run_block(Block& on) {
    block = &on;
    blockIdx = on.index;
    blockDim = {on.grid->threads, 1, 1};
    gridDim = on.grid->blocks;
    is_paused = false;
    const uint32_t count = on.grid->threads;
    const bool is_power = (count & (count - 1)) == 0;
    while (on.alive > 0) {
        const uint32_t first = random_number() % count, stride = is_power ? random_number() | 1 : 1;
        bool is_stuck = true, waits = false;
        for (uint32_t i = 0; i < count; i++) {
            Thread& thread = *on.threads[(first + i * stride) % count];
            if (thread.is_done) continue;
            if (thread.awaited != nullptr && *thread.awaited == thread.since) {
                waits |= thread.awaited == &on.grid->before;
                continue;
            }
            is_stuck = false;
            thread.awaited = nullptr;
            resume(thread);
            if (is_paused) return;
            if (!thread.is_done) continue;
            if (!thread.copies.empty()) fail("a thread ended with copies under way");
            if (*thread.stack_canary != STACK_CANARY) fail("a stack was too small");
            on.alive--;
            if (on.alive > 0 && on.arrived == on.alive) release();
        }
        if (is_stuck && waits) return;
        if (is_stuck) fail("everybody waits");
    }
}

}  // namespace emulated
