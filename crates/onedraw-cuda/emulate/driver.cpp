// A libcuda without a GPU: the functions of the CUDA driver that onedraw-cuda calls, over memory of the host
// and over the kernels as a C++ compiler makes them.
//
// Work of all streams goes into one queue, in the order in which it is launched, and is done when somebody
// waits for any stream, and no sooner. So a wait that the host forgets is found; a stream that forgets to
// wait for another is not. Memory that nobody has written holds no zeros.
//
// With EMULATED_SHARED in the environment all memory of the host is the device's too, and work is done as it is
// launched: for engines that believe to be on a CPU, and read results without a wait.
#include <dlfcn.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <type_traits>

#include "cuda.hpp"
#include "kernels.hpp"

#include "../kernels/onedraw.cu"

// Shared memory of a thread block, as much as on an H100. It is dynamic shared memory.
constexpr size_t SHARED_BYTES = 227 << 10;
alignas(16) thread_local float memory[SHARED_BYTES / sizeof(float)];

namespace {

enum Code { SUCCESS = 0, INVALID_VALUE = 1, OUT_OF_MEMORY = 2, INVALID_DEVICE = 101, INVALID_CONTEXT = 201, NOT_FOUND = 500, OUT_OF_RESOURCES = 701, LAUNCH_FAILED = 719, CAPTURED = 900, INVALIDATED = 901 };
using emulated::Work;
typedef uint64_t Address;

struct Function {
    void* symbol;
    // What its one argument is.
    enum Argument { STEP, ASK, REQUESTS, OPEN_STEP, APPEND_STEP, REPEAT_STEP, REVISE_STEP } argument;
    int dynamic;
};

struct Stream {
    // The device that it is of.
    int device = 0;
    bool is_captured = false, is_invalidated = false;
    std::vector<Work> captured;
};

// Laid out as in cuda.h, this and the next.
struct Attribute {
    int kind;
    uint32_t reserved;
    int value;
};

struct Launch {
    uint32_t blocks_x, blocks_y, blocks_z, threads_x, threads_y, threads_z, shared;
    Stream* stream;
    const Attribute* attributes;
    uint32_t attribute_count;
};

std::recursive_mutex driver_mutex;
std::deque<Work> queue;
// How much work was ever put into the queue.
uint64_t queued = 0;
// Bytes of each allocation, by its address, and whether it is device memory.
std::map<Address, std::pair<size_t, bool>> allocations;
std::map<std::string, Function> functions;
Stream legacy;
// The contexts of the two devices; that of this thread.
int contexts[2] = {0, 1};
thread_local int* current_context = nullptr;
// Streams that are captured in a mode in which nobody may wait or allocate.
std::vector<Stream*> strict_captures;

// Null, 1 and 2 are default streams, and here the same one.
Stream& of(Stream* stream) { return Address(stream) <= 2 ? legacy : *stream; }

// Whether memory is shared with the host.
bool is_shared() {
    static const bool is = getenv("EMULATED_SHARED") != nullptr;
    return is;
}

Code run_queue();
bool lacks(const char* what);

// How many kernels were ever launched, and whether the device is lost: then every call fails.
std::atomic<uint64_t> launched{0};
std::atomic<bool> is_lost{false};

// Adds work to the queue, or to the graph that the stream is captured into.
Code enqueue(Stream* stream, Work work) {
    if (is_lost) return LAUNCH_FAILED;
    const std::lock_guard<std::recursive_mutex> lock(driver_mutex);
    if (of(stream).is_captured) of(stream).captured.push_back(work);
    else queue.push_back(work), queued++;
    return is_shared() ? run_queue() : SUCCESS;
}

// Does all work of the queue.
Code run_queue() {
    const std::lock_guard<std::recursive_mutex> lock(driver_mutex);
    // The first access allocates the thread-local memory.
    *static_cast<volatile float*>(memory) = 0.0f;
    // A device that lacks itself is lost in its tenth kernel.
    if (lacks("device") && launched >= 10) is_lost = true;
    if (is_lost) return queue.clear(), LAUNCH_FAILED;
    while (!queue.empty()) emulated::do_first(queue);
    return SUCCESS;
}

// Whether a call is forbidden because streams are captured; it invalidates these captures.
bool is_forbidden_by_capture() {
    const std::lock_guard<std::recursive_mutex> lock(driver_mutex);
    for (Stream* stream : strict_captures) stream->is_invalidated = true;
    return !strict_captures.empty();
}

Code allocate(Address* address, size_t bytes, bool is_device) {
    const std::lock_guard<std::recursive_mutex> lock(driver_mutex);
    if (is_lost) return LAUNCH_FAILED;
    if (is_forbidden_by_capture()) return CAPTURED;
    void* found = nullptr;
    if (bytes == 0) return INVALID_VALUE;
    // A device that lacks memory has 32 MB.
    size_t taken = bytes;
    for (const auto& each : allocations) taken += each.second.second ? each.second.first : 0;
    if (is_device && lacks("memory") && taken > 32 << 20) return OUT_OF_MEMORY;
    // Not a byte more than asked for: built with -fsanitize=address, a read past the end is found.
    if (posix_memalign(&found, 256, bytes) != 0) return OUT_OF_MEMORY;
    memset(found, emulated::UNWRITTEN, bytes);
    *address = Address(found);
    allocations[*address] = {bytes, is_device};
    return SUCCESS;
}

// The allocation that an address is in; the end if it is in none.
std::map<Address, std::pair<size_t, bool>>::iterator find(Address address) {
    auto after = allocations.upper_bound(address);
    if (after == allocations.begin()) return allocations.end();
    --after;
    return address - after->first < after->second.first ? after : allocations.end();
}

Code free_memory(Address address, bool is_device) {
    if (is_forbidden_by_capture()) return CAPTURED;
    if (run_queue() != SUCCESS) return LAUNCH_FAILED;
    const std::lock_guard<std::recursive_mutex> lock(driver_mutex);
    const auto found = allocations.find(address);
    if (found == allocations.end() || found->second.second != is_device) return INVALID_VALUE;
    allocations.erase(found);
    free(reinterpret_cast<void*>(address));
    return SUCCESS;
}

template <typename Argument>
Code launch_with(const Function* function, const Launch& launch, void** arguments) {
    const Argument argument = *static_cast<const Argument*>(arguments[0]);
    const auto kernel = reinterpret_cast<void (*)(Argument)>(function->symbol);
    // 6 is the attribute that the driver calls programmatic stream serialization.
    const bool is_early = launch.attribute_count > 0 && launch.attributes[0].kind == 6 && launch.attributes[0].value != 0;
    emulated::Kernel launched;
    launched.grid.blocks = {launch.blocks_x, launch.blocks_y, 1};
    launched.grid.threads = launch.threads_x;
    launched.grid.kernel = [=]() { kernel(argument); };
    launched.is_early = is_early;
    return enqueue(launch.stream, {std::make_shared<const emulated::Kernel>(launched), {}});
}

// What the tests want this driver to lack: a newer version, a newer card, memory, resources for a launch ("launch" and a
// number), some copies, or from the tenth kernel on the device.
bool lacks(const char* what) {
    const char* const lack = getenv("EMULATED_LACK");
    return lack != nullptr && strcmp(lack, what) == 0;
}

// How many launches a step has, of a driver that lacks "launch" and then that number; 0 if it lacks something else.
int launches_of_step() {
    const char* const lack = getenv("EMULATED_LACK");
    return lack != nullptr && strncmp(lack, "launch ", 7) == 0 ? atoi(lack + 7) : 0;
}

// Which launches fail, in steps of so many launches: the first step fails at its first launch, the next step is
// complete, the third fails at its second launch, and so on.
bool fails_now(int launches) {
    static int step = 0, launch = 0;
    const bool fails = step % 2 == 0 && launch == step / 2;
    if (!fails && ++launch < launches) return false;
    launch = 0;
    step++;
    return fails;
}

// Whether so many bytes from an address on are device memory.
bool holds(Address address, size_t bytes) {
    const std::lock_guard<std::recursive_mutex> lock(driver_mutex);
    const auto found = find(address);
    return found != allocations.end() && found->second.second && address - found->first + bytes <= found->second.first;
}

// Whether a copy fails of a driver that lacks copies: every second one of the record of a sequence that a request brings.
bool fails_now(const void* from, size_t bytes) {
    static int records = 0;
    return lacks("copies") && bytes == sizeof(Sequence) && find(Address(from)) != allocations.end() && records++ % 2 == 1;
}

Code copy(Stream* stream, void* to, const void* from, size_t bytes) {
    return enqueue(stream, {nullptr, [=]() { memcpy(to, from, bytes); }});
}

}  // namespace

// Names and arguments are the driver's.
extern "C" {

Code cuInit(uint32_t) { return SUCCESS; }
Code cuDriverGetVersion(int* version) { return *version = lacks("driver") ? 12080 : 13000, SUCCESS; }
// There are two devices, of which the second has streams alone.
Code cuDeviceGetCount(int* count) { return *count = 2, SUCCESS; }
Code cuDeviceGet(int* device, int ordinal) { return *device = ordinal, ordinal == 0 || ordinal == 1 ? SUCCESS : INVALID_DEVICE; }
Code cuDeviceGetName(char* name, int length, int) { return snprintf(name, size_t(length), "a CPU"), SUCCESS; }
Code cuDeviceGetAttribute(int* value, int attribute, int) {
    // Multiprocessors (few, so that rows take turns), the compute capability, shared memory of a block.
    const bool is_old = lacks("card");
    *value = attribute == 16 ? 3 : attribute == 75 ? (is_old ? 7 : 9) : attribute == 76 ? (is_old ? 5 : 0) : attribute == 97 ? int(SHARED_BYTES) : 0;
    return SUCCESS;
}
Code cuDevicePrimaryCtxRetain(int** context, int device) { return *context = &contexts[device], SUCCESS; }
Code cuDevicePrimaryCtxRelease_v2(int) { return SUCCESS; }
Code cuCtxGetCurrent(int** context) { return *context = current_context, SUCCESS; }
Code cuCtxSetCurrent(int* context) { return current_context = context, SUCCESS; }
Code cuCtxSynchronize() { return is_forbidden_by_capture() ? CAPTURED : run_queue(); }
Code cuGetErrorName(int, const char** name) { return *name = "an error of the emulated driver", SUCCESS; }
Code cuGetErrorString(int, const char** text) { return *text = "an error of the emulated driver", SUCCESS; }

Code cuModuleLoadData(void** module, const void*) { return *module = &functions, is_lost ? LAUNCH_FAILED : SUCCESS; }
Code cuModuleUnload(void*) { return SUCCESS; }
Code cuModuleGetFunction(Function** function, void*, const char* name) {
    const std::lock_guard<std::recursive_mutex> lock(driver_mutex);
    Dl_info own;
    dladdr(reinterpret_cast<void*>(cuInit), &own);
    void* const library = dlopen(own.dli_fname, RTLD_NOW | RTLD_NOLOAD);
    void* const symbol = dlsym(library, name);
    if (symbol == nullptr) return NOT_FOUND;
    const auto begins = [name](const char* with) { return strncmp(name, with, strlen(with)) == 0; };
    const Function::Argument argument = begins("ask_")                            ? Function::ASK
                                        : begins("follow") || begins("settle")    ? Function::REQUESTS
                                        : begins("open_")                         ? Function::OPEN_STEP
                                        : begins("append_each")                   ? Function::APPEND_STEP
                                        : begins("repeat_each")                   ? Function::REPEAT_STEP
                                        : begins("revise_each")                   ? Function::REVISE_STEP
                                                                                  : Function::STEP;
    *function = &functions.emplace(name, Function{symbol, argument, 48 << 10}).first->second;
    return SUCCESS;
}
// The static shared memory of a draw; it is not asked for other kernels.
Code cuFuncGetAttribute(int* value, int, Function*) { return *value = int(sizeof(Draw<float, ANY>)), SUCCESS; }
Code cuFuncSetAttribute(Function* function, int attribute, int value) {
    if (attribute == 8) function->dynamic = value;
    return SUCCESS;
}
Code cuLaunchKernelEx(const Launch* launch, Function* function, void** arguments, void**) {
    if (launch->threads_x == 0 || launch->threads_x > 1024 || launch->blocks_x == 0 || launch->blocks_y == 0 || launch->blocks_y > 65535 || int(launch->shared) > function->dynamic) return INVALID_VALUE;
    const int launches = launches_of_step();
    if (launches > 0 && fails_now(launches)) return OUT_OF_RESOURCES;
    launched++;
    switch (function->argument) {
        case Function::ASK: return launch_with<Ask>(function, *launch, arguments);
        case Function::REQUESTS: return launch_with<Requests>(function, *launch, arguments);
        case Function::OPEN_STEP: return launch_with<OpenStep>(function, *launch, arguments);
        case Function::APPEND_STEP: return launch_with<AppendStep>(function, *launch, arguments);
        case Function::REPEAT_STEP: return launch_with<RepeatStep>(function, *launch, arguments);
        case Function::REVISE_STEP: return launch_with<ReviseStep>(function, *launch, arguments);
        default: return launch_with<Step>(function, *launch, arguments);
    }
}
Code cuLaunchKernel(Function* function, uint32_t bx, uint32_t by, uint32_t bz, uint32_t tx, uint32_t ty, uint32_t tz, uint32_t shared, Stream* stream, void** arguments, void** more) {
    const Launch launch = {bx, by, bz, tx, ty, tz, shared, stream, nullptr, 0};
    return cuLaunchKernelEx(&launch, function, arguments, more);
}

Code cuMemAlloc_v2(Address* address, size_t bytes) { return allocate(address, bytes, true); }
Code cuMemFree_v2(Address address) { return free_memory(address, true); }
Code cuMemHostAlloc(void** address, size_t bytes, uint32_t) { return allocate(reinterpret_cast<Address*>(address), bytes, false); }
Code cuMemFreeHost(void* address) { return free_memory(Address(address), false); }
Code cuMemcpyHtoDAsync_v2(Address to, const void* from, size_t bytes, Stream* stream) {
    const std::lock_guard<std::recursive_mutex> lock(driver_mutex);
    if (!holds(to, bytes)) return INVALID_VALUE;
    if (fails_now(from, bytes)) return OUT_OF_RESOURCES;
    if (find(Address(from)) != allocations.end()) return copy(stream, reinterpret_cast<void*>(to), from, bytes);
    // The driver has read memory that it did not allocate by the time that it returns.
    const std::vector<char> read(static_cast<const char*>(from), static_cast<const char*>(from) + bytes);
    return enqueue(stream, {nullptr, [=]() { memcpy(reinterpret_cast<void*>(to), read.data(), bytes); }});
}
Code cuMemcpyDtoHAsync_v2(void* to, Address from, size_t bytes, Stream* stream) { return !holds(from, bytes) ? INVALID_VALUE : copy(stream, to, reinterpret_cast<void*>(from), bytes); }
Code cuMemcpyDtoDAsync_v2(Address to, Address from, size_t bytes, Stream* stream) {
    return !holds(to, bytes) || !holds(from, bytes) ? INVALID_VALUE : copy(stream, reinterpret_cast<void*>(to), reinterpret_cast<void*>(from), bytes);
}
Code cuMemsetD8Async(Address to, uint8_t fill, size_t bytes, Stream* stream) {
    return !holds(to, bytes) ? INVALID_VALUE : enqueue(stream, {nullptr, [=]() { memset(reinterpret_cast<void*>(to), fill, bytes); }});
}
Code cuMemsetD8_v2(Address to, uint8_t fill, size_t bytes) { return cuMemsetD8Async(to, fill, bytes, nullptr); }
Code cuPointerGetAttribute(void* value, int attribute, Address address) {
    const std::lock_guard<std::recursive_mutex> lock(driver_mutex);
    const auto found = find(address);
    if (found == allocations.end() && is_shared()) return *static_cast<uint32_t*>(value) = attribute == 2 ? 2 : 0, SUCCESS;
    if (found == allocations.end()) return INVALID_VALUE;
    // The kind of memory, 1 of the host and 2 of the device; the device's number.
    if (attribute == 2) *static_cast<uint32_t*>(value) = found->second.second ? 2 : 1;
    else if (attribute == 9) *static_cast<int*>(value) = 0;
    else return INVALID_VALUE;
    return SUCCESS;
}

Code cuStreamCreate(Stream** stream, uint32_t) {
    if (is_lost) return LAUNCH_FAILED;
    if (current_context == nullptr) return INVALID_CONTEXT;
    *stream = new Stream;
    (*stream)->device = *current_context;
    return SUCCESS;
}
// As the real driver: the question ends the capture.
Code cuStreamGetDevice(const Stream* stream, int* device) {
    if (is_forbidden_by_capture()) return CAPTURED;
    return *device = stream->device, SUCCESS;
}
Code cuStreamDestroy_v2(Stream* stream) { return run_queue(), delete stream, SUCCESS; }
Code cuStreamSynchronize(Stream* stream) {
    if (!of(stream).is_captured) return is_forbidden_by_capture() ? CAPTURED : run_queue();
    of(stream).is_invalidated = true;
    return CAPTURED;
}
Code cuStreamWaitEvent(Stream*, void*, uint32_t) { return SUCCESS; }
Code cuStreamIsCapturing(Stream* stream, int* is) { return *is = of(stream).is_captured, SUCCESS; }
Code cuStreamBeginCapture_v2(Stream* stream, int mode) {
    const std::lock_guard<std::recursive_mutex> lock(driver_mutex);
    if (stream == nullptr || stream->is_captured) return INVALID_VALUE;
    stream->is_captured = true;
    // 2 is the relaxed mode.
    if (mode != 2) strict_captures.push_back(stream);
    return SUCCESS;
}
Code cuStreamEndCapture(Stream* stream, std::vector<Work>** graph) {
    const std::lock_guard<std::recursive_mutex> lock(driver_mutex);
    if (stream == nullptr || !stream->is_captured) return INVALID_VALUE;
    strict_captures.erase(std::remove(strict_captures.begin(), strict_captures.end(), stream), strict_captures.end());
    const bool is_invalidated = stream->is_invalidated;
    *graph = is_invalidated ? nullptr : new std::vector<Work>(std::move(stream->captured));
    const int device = stream->device;
    *stream = {};
    stream->device = device;
    return is_invalidated ? INVALIDATED : SUCCESS;
}
Code cuGraphInstantiateWithFlags(std::vector<Work>** runs, std::vector<Work>* graph, uint64_t) { return *runs = new std::vector<Work>(*graph), SUCCESS; }
Code cuGraphLaunch(std::vector<Work>* graph, Stream* stream) {
    for (const Work& work : *graph) enqueue(stream, work);
    return SUCCESS;
}
Code cuGraphUpload(std::vector<Work>*, Stream*) { return SUCCESS; }
Code cuGraphDestroy(std::vector<Work>* graph) { return delete graph, SUCCESS; }
Code cuGraphExecDestroy(std::vector<Work>* graph) { return delete graph, SUCCESS; }

// An event is how much work had been queued when it was recorded. No stream waits for one: all work is done in the
// order in which it was queued. 600: not ready.
Code cuEventCreate(uint64_t** event, uint32_t) { return *event = new uint64_t(0), SUCCESS; }
Code cuEventDestroy_v2(uint64_t* event) { return delete event, SUCCESS; }
Code cuEventRecord(uint64_t* event, Stream*) {
    const std::lock_guard<std::recursive_mutex> lock(driver_mutex);
    return *event = queued, SUCCESS;
}
Code cuEventSynchronize(void*) { return is_forbidden_by_capture() ? CAPTURED : run_queue(); }
Code cuEventQuery(const uint64_t* event) {
    const std::lock_guard<std::recursive_mutex> lock(driver_mutex);
    return queued - queue.size() >= *event ? SUCCESS : Code(600);
}
}
