// Blocks of threads on one thread of the CPU: each of theirs has a stack of its own, and runs until it must wait for others.
//
// Who is next is nearly random, so that what hangs on an order is likely to show. A block in which everybody waits is said to hang, and the program ends.
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

// Of whichever thread runs.
inline Dimensions threadIdx, blockIdx, blockDim, gridDim;

namespace emulated {

constexpr uint32_t LANES = 32;
constexpr size_t STACK = 128 << 10;

// Something that is waited for: it comes when the number is another one.
typedef uint32_t Turn;

// What threads meet for: all of them for the same.
enum Meeting : uint32_t { BARRIER, COUNT, ANY_OR_ALL, SHUFFLE, BALLOT, SUM, LARGEST, WARP };
constexpr uint64_t STACK_END = 0x9ae16a3b2f90404full;

struct Thread {
    jmp_buf at;
    ucontext_t start;
    uint32_t number;
    const Turn* awaited;
    Turn since;
    bool is_done;
    // Copies that nobody has waited for yet, and how many of them were committed.
    std::vector<std::function<void()>> copies;
    size_t committed;
    // The lowest word of the stack: whoever needs more than there is writes over it.
    uint64_t* end_of_stack;
};

struct Warp {
    Turn turn;
    uint32_t arrived;
    Meeting meeting;
    // What the lanes brought, this time and the time before: nobody is two behind.
    uint64_t brought[2][LANES];
};

// Blocks of a kernel, and what it needs of the one before it.
struct Grid {
    Dimensions blocks;
    uint32_t threads;
    std::function<void()> kernel;
    // Whether a block stops where it lets the next kernel begin.
    bool pauses = false;
    // Another number once the kernel before has ended.
    Turn before = 0;
};

struct Block {
    Grid* grid;
    Dimensions index;
    std::vector<std::unique_ptr<Thread>> threads;
    Turn turn;
    uint32_t arrived, alive;
    Meeting meeting;
    // For how many threads it was true.
    uint32_t truths, counted[2];
    std::vector<Warp> warps;
    // Whether a thread has let the next kernel begin.
    bool is_over_to_next;
    // Its shared memory, while another block has the place.
    std::vector<char> shared;
};

inline Thread* running;
inline Block* block;
inline bool is_paused;
inline jmp_buf scheduler;
inline ucontext_t beginning;
inline uint64_t random = 0x9e3779b97f4a7c15ull;

inline uint32_t any_number() {
    random = random * 6364136223846793005ull + 1442695040888963407ull;
    return uint32_t(random >> 33);
}

inline void leave() {
    if (_setjmp(running->at) == 0) _longjmp(scheduler, 1);
}

inline void wait_for(const Turn& turn) {
    running->awaited = &turn;
    running->since = turn;
    leave();
}

// A thread never ends: it is given the next block's work.
inline void live() {
    while (true) {
        leave();
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
        void* const stack = mmap(nullptr, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (stack == MAP_FAILED) {
            perror("emulated: a stack");
            abort();
        }
        thread.end_of_stack = static_cast<uint64_t*>(stack);
        *thread.end_of_stack = STACK_END;
        getcontext(&thread.start);
        thread.start.uc_stack.ss_sp = stack;
        thread.start.uc_stack.ss_size = STACK;
        makecontext(&thread.start, live, 0);
        running = &thread;
        // To the first `leave`.
        if (_setjmp(scheduler) == 0) swapcontext(&beginning, &thread.start);
    }
}

// Makes a block ready to begin.
inline void begin_block(Block& begun, Grid& grid, Dimensions index) {
    add_threads(begun, grid.threads);
    begun.grid = &grid;
    begun.index = index;
    begun.turn = begun.arrived = begun.truths = 0;
    begun.alive = grid.threads;
    begun.warps.assign((grid.threads + LANES - 1) / LANES, {});
    begun.is_over_to_next = false;
    begun.shared.clear();
    for (uint32_t i = 0; i < grid.threads; i++) {
        begun.threads[i]->awaited = nullptr;
        begun.threads[i]->is_done = false;
    }
}

inline void release() {
    block->counted[block->turn & 1] = block->truths;
    block->truths = block->arrived = 0;
    block->turn++;
}

[[noreturn]] inline void fail(const char* what) {
    fprintf(stderr, "emulated: block %u, %u of %u threads: %s\n", blockIdx.x, blockIdx.y, blockDim.x, what);
    abort();
}

// All threads of the block that have not ended; for how many it was true.
inline uint32_t meet(Meeting meeting, bool is_true) {
    const Turn turn = block->turn;
    if (block->arrived > 0 && block->meeting != meeting) fail("threads meet at different barriers");
    block->meeting = meeting;
    block->truths += is_true;
    if (++block->arrived == block->alive) release();
    else wait_for(block->turn);
    return block->counted[turn & 1];
}

// All lanes of a warp: what each of them brought.
inline const uint64_t* meet_warp(Meeting meeting, uint32_t mask, uint64_t brings) {
    if (mask != 0xffffffffu) fail("a part of a warp meets, which is not emulated");
    Warp& warp = block->warps[running->number / LANES];
    if (warp.arrived > 0 && warp.meeting != meeting) fail("lanes meet for different things");
    warp.meeting = meeting;
    uint64_t* const brought = warp.brought[warp.turn & 1];
    brought[running->number % LANES] = brings;
    if (++warp.arrived == LANES) {
        warp.arrived = 0;
        warp.turn++;
    } else wait_for(warp.turn);
    return brought;
}

// The first thread that does so speaks for its block.
inline void over_to_next() {
    if (block->is_over_to_next) return;
    block->is_over_to_next = true;
    if (!block->grid->pauses) return;
    is_paused = true;
    leave();
}

inline void after_the_one_before() {
    if (block->grid->before == 0) wait_for(block->grid->before);
}

// Runs a block on, until it has ended, pauses, or waits for the kernel before.
inline void run_block(Block& on) {
    block = &on;
    blockIdx = on.index;
    blockDim = {on.grid->threads, 1, 1};
    gridDim = on.grid->blocks;
    is_paused = false;
    const uint32_t count = on.grid->threads;
    const bool is_power = (count & (count - 1)) == 0;
    while (on.alive > 0) {
        const uint32_t first = any_number() % count, stride = is_power ? any_number() | 1 : 1;
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
            if (*thread.end_of_stack != STACK_END) fail("a stack was too small");
            on.alive--;
            if (on.alive > 0 && on.arrived == on.alive) release();
        }
        if (is_stuck && waits) return;
        if (is_stuck) fail("everybody waits");
    }
}

}  // namespace emulated
