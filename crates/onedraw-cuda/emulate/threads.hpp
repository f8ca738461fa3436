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

struct Thread {
    jmp_buf at;
    ucontext_t start;
    uint32_t number;
    const Turn* awaited;
    Turn since;
    bool is_done;
    // Copies that nobody has waited for yet.
    std::vector<std::function<void()>> copies;
};

struct Warp {
    Turn turn;
    uint32_t arrived;
    // What the lanes brought, this time and the time before: nobody is two behind.
    uint64_t brought[2][LANES];
};

struct Block {
    Turn turn;
    uint32_t arrived, alive;
    // For how many threads it was true.
    uint32_t truths, counted[2];
    std::vector<Warp> warps;
};

inline std::vector<std::unique_ptr<Thread>> threads;
inline Thread* running;
inline Block block;
inline jmp_buf scheduler;
inline ucontext_t beginning;
inline std::function<void()> body;
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
        body();
        running->is_done = true;
    }
}

inline void resume(Thread& thread) {
    running = &thread;
    threadIdx = {thread.number, 0, 0};
    if (_setjmp(scheduler) == 0) _longjmp(thread.at, 1);
}

inline void add_threads(uint32_t count) {
    while (threads.size() < count) {
        threads.emplace_back(new Thread{});
        Thread& thread = *threads.back();
        thread.number = uint32_t(threads.size() - 1);
        void* const stack = mmap(nullptr, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (stack == MAP_FAILED) abort();
        getcontext(&thread.start);
        thread.start.uc_stack.ss_sp = stack;
        thread.start.uc_stack.ss_size = STACK;
        makecontext(&thread.start, live, 0);
        running = &thread;
        // To the first `leave`.
        if (_setjmp(scheduler) == 0) swapcontext(&beginning, &thread.start);
    }
}

inline void release() {
    block.counted[block.turn & 1] = block.truths;
    block.truths = block.arrived = 0;
    block.turn++;
}

// All threads of the block that have not ended; for how many it was true.
inline uint32_t meet(bool is_true) {
    const Turn turn = block.turn;
    block.truths += is_true;
    if (++block.arrived == block.alive) release();
    else wait_for(block.turn);
    return block.counted[turn & 1];
}

// All lanes of a warp: what each of them brought.
inline const uint64_t* meet_warp(uint32_t mask, uint64_t brings) {
    if (mask != 0xffffffffu) abort();
    Warp& warp = block.warps[running->number / LANES];
    uint64_t* const brought = warp.brought[warp.turn & 1];
    brought[running->number % LANES] = brings;
    if (++warp.arrived == LANES) {
        warp.arrived = 0;
        warp.turn++;
    } else wait_for(warp.turn);
    return brought;
}

// Runs a block to its end.
inline void run_block(uint32_t count) {
    add_threads(count);
    block.turn = block.arrived = block.truths = 0;
    block.alive = count;
    block.warps.assign((count + LANES - 1) / LANES, {});
    for (uint32_t i = 0; i < count; i++) {
        threads[i]->awaited = nullptr;
        threads[i]->is_done = false;
    }
    const bool is_power = (count & (count - 1)) == 0;
    while (block.alive > 0) {
        const uint32_t first = any_number() % count, stride = is_power ? any_number() | 1 : 1;
        bool is_stuck = true;
        for (uint32_t i = 0; i < count; i++) {
            Thread& thread = *threads[(first + i * stride) % count];
            if (thread.is_done || (thread.awaited != nullptr && *thread.awaited == thread.since)) continue;
            is_stuck = false;
            thread.awaited = nullptr;
            resume(thread);
            if (!thread.is_done) continue;
            if (!thread.copies.empty()) {
                fprintf(stderr, "emulated: thread %u of block %u, %u ended with copies under way\n", thread.number, blockIdx.x, blockIdx.y);
                abort();
            }
            block.alive--;
            if (block.alive > 0 && block.arrived == block.alive) release();
        }
        if (!is_stuck) continue;
        fprintf(stderr, "emulated: block %u, %u hangs, %u threads are at a barrier\n", blockIdx.x, blockIdx.y, block.arrived);
        abort();
    }
}

}  // namespace emulated
