// What the classes of onedraw.hpp are made of: errors, spans, and owners of handles. Include onedraw.hpp.

#ifndef ONEDRAW_CORE_HPP
#define ONEDRAW_CORE_HPP

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <initializer_list>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "onedraw.h"

// What is inline in these headers differs with and without exceptions, so it has two names.
#if defined(__cpp_exceptions) || defined(_CPPUNWIND)
#define ONEDRAW_EXCEPTIONS 1
#define ONEDRAW_INLINE_NAMESPACE with_exceptions
#else
#define ONEDRAW_EXCEPTIONS 0
#define ONEDRAW_INLINE_NAMESPACE without_exceptions
#endif

namespace onedraw {
inline namespace ONEDRAW_INLINE_NAMESPACE {

/// What went wrong.
class Error : public std::runtime_error {
public:
    explicit Error(const onedraw_error &error)
        : std::runtime_error(error.message), status_(error.status), kind_(error.kind) {}

    /// `ONEDRAW_BAD_PARAMETER`, `ONEDRAW_BAD_ROW`, …
    onedraw_status status() const noexcept { return status_; }

    /// The parameter, the argument or the kind of the row's error.
    const std::string &kind() const noexcept { return kind_; }

private:
    onedraw_status status_;
    std::string kind_;
};

/// Values that lie one after the other: a pointer and a number. What it is made of must live as long as it does.
template <class T>
class Span {
public:
    constexpr Span() noexcept = default;
    /// A pointer, and nothing that becomes one: in {0, 1} the 0 is a value.
    template <class Pointer, class = std::enable_if_t<std::is_pointer_v<Pointer> && std::is_convertible_v<Pointer, T *>>>
    constexpr Span(Pointer data, std::size_t size) noexcept : data_(data), size_(size) {}
    /// Values in braces, which live until the end of the call that they are an argument of.
    template <class U = T, class = std::enable_if_t<std::is_const_v<U>>>
    constexpr Span(std::initializer_list<std::remove_const_t<T>> values) noexcept : size_(values.size()) {
        T *first = values.begin();
        data_ = first;
    }
    template <std::size_t N>
    constexpr Span(T (&values)[N]) noexcept : data_(values), size_(N) {}
    /// Anything with data() and size(): vectors, arrays, strings.
    template <class Values, class = std::enable_if_t<std::is_convertible_v<decltype(std::declval<Values &>().data()), T *>>>
    constexpr Span(Values &&values) noexcept : data_(values.data()), size_(values.size()) {}

    constexpr T *data() const noexcept { return data_; }
    constexpr std::size_t size() const noexcept { return size_; }
    constexpr T *begin() const noexcept { return data_; }
    constexpr T *end() const noexcept { return data_ + size_; }

private:
    T *data_ = nullptr;
    std::size_t size_ = 0;
};

/// A type of logits.
enum class Dtype : onedraw_dtype { f32 = ONEDRAW_F32, f16 = ONEDRAW_F16, bf16 = ONEDRAW_BF16 };

using Sampled = onedraw_sampled;
using TokenLogprob = onedraw_token_logprob;
using Probability = onedraw_probability;
using Progress = onedraw_progress;
using Runner = onedraw_runner;
using Branch = onedraw_branch;
using Sequence = onedraw_sequence;

/// The version of the library.
inline const char *version() noexcept { return onedraw_version(); }

/// The version of the library's interface, to compare with `ONEDRAW_ABI`.
inline std::uint32_t abi() noexcept { return onedraw_abi(); }

/// The version of the streams: which token a seed draws.
inline std::uint32_t stream_version() noexcept { return onedraw_stream_version(); }

/// What the classes share. Not for users.
namespace detail {

[[noreturn]] inline void fail(const onedraw_error &error) {
#if ONEDRAW_EXCEPTIONS
    throw Error(error);
#else
    std::fprintf(stderr, "onedraw: %s\n", error.message);
    std::abort();
#endif
}

/// An argument that cannot be used; the message begins with its name.
[[noreturn]] inline void bad_argument(const char *name, const char *what) {
    onedraw_error error{};
    error.status = ONEDRAW_BAD_ARGUMENT;
    std::snprintf(error.kind, sizeof error.kind, "%s", name);
    int length = std::snprintf(error.message, sizeof error.message, "%s: %s", name, what);
    error.length = length < 0 ? 0 : static_cast<std::uint32_t>(length);
    fail(error);
}

/// Text for C, where a zero would end it.
inline const char *text_of(const std::string &text, const char *name) {
    if (text.find('\0') != std::string::npos) bad_argument(name, "has a zero byte in it");
    return text.c_str();
}

/// Calls a function of C, which fails or is done.
template <class Call>
void check(Call call) {
    onedraw_error error;
    if (call(&error) != ONEDRAW_OK) fail(error);
}

/// Calls a function of C that returns values: once to learn how many, and again until they fit.
template <class T, class Call>
std::vector<T> values(Call call, std::size_t room = 0) {
    std::vector<T> values(room);
    for (;;) {
        onedraw_error error;
        std::size_t count = 0;
        onedraw_status status = call(values.data(), values.size(), &count, &error);
        if (status != ONEDRAW_OK && status != ONEDRAW_TOO_SMALL) fail(error);
        values.resize(count);
        if (status == ONEDRAW_OK) return values;
    }
}

/// Calls a function of C that returns text.
template <class Call>
std::string text(Call call) {
    std::string text;
    std::size_t room = 0;
    for (;;) {
        onedraw_error error;
        std::size_t length = 0;
        // The zero is written to where the string has one anyway.
        onedraw_status status = call(&text[0], room, &length, &error);
        if (status != ONEDRAW_OK && status != ONEDRAW_TOO_SMALL) fail(error);
        text.resize(status == ONEDRAW_OK ? length : length - 1);
        if (status == ONEDRAW_OK) return text;
        room = length;
    }
}

/// Calls a function of C that finds text, and then the one that returns it.
template <class Find, class Fetch>
std::string found(Find find, Fetch fetch) {
    std::size_t length = 0;
    check([&](auto error) { return find(&length, error); });
    std::string text(length, '\0');
    // The zero is written to where the string has one anyway.
    check([&](auto error) { return fetch(&text[0], length + 1, &length, error); });
    return text;
}

/// Owns a handle.
template <class T, onedraw_status (*Free)(T *, onedraw_error *)>
class Owner {
public:
    Owner(Owner &&other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
    Owner &operator=(Owner &&other) noexcept {
        std::swap(handle_, other.handle_);
        return *this;
    }
    Owner(const Owner &) = delete;
    Owner &operator=(const Owner &) = delete;
    ~Owner() { Free(handle_, nullptr); }

    /// The handle, for functions of C. It stays owned.
    T *get() const noexcept { return handle_; }

protected:
    explicit Owner(T *handle) noexcept : handle_(handle) {}

    /// The handle that a function of C makes.
    template <class Call>
    static T *make(Call call) {
        T *handle = nullptr;
        check([&](onedraw_error *error) { return call(&handle, error); });
        return handle;
    }

private:
    T *handle_;
};

}  // namespace detail

}  // inline namespace
}  // namespace onedraw

#endif
