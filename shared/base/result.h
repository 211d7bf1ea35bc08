// Result<T>: a value or an Error. Operating errors are values. Downpour's own code does not throw.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include "shared/base/check.h"
#include "shared/base/str.h"

namespace downpour {

/// The kind of an error: what a caller can react to. It determines the process's exit code
/// (exit_code()). Messages have it as a number.
enum class ErrorCode : uint8_t {
  kUsage,        // 64: wrong flags or arguments
  kBadData,      // 65: a record or a file does not have the format that it should have
  kNoInput,      // 66: an input does not exist
  kUnavailable,  // 69: a peer cannot be reached or has another version; a resource is not available
  kBug,          // 70: an impossible state
  kCannotCreate,  // 73: an output cannot be created
  kIo,            // 74: reading or writing failed
  kPermission,    // 77
  kConfig,        // 78: an error in the job file or the environment
  kMalformed,     // 65: bytes from a peer that break the protocol
  kUnsupported,   // 69: a version or a feature that this build does not support
  kInterrupted,   // 130: stopped by SIGINT
  kPeersLost,     // 180: processes of the job are lost; the user may retry
  kTerminated,    // 143: stopped by SIGTERM; in no message
};

/// An operating error: its code, what happened, where, and what to do about it.
struct [[nodiscard]] Error {
  ErrorCode code = ErrorCode::kBug;
  std::string what;
  std::string where;  // file:line, file:offset or host:port; may be empty
  std::string hint;   // what to type or to change next; may be empty
  std::string id;     // "DP-2104"; may be empty

  template <typename... Parts>
  Error with_context(const Parts&... parts) && {
    what = str(parts..., ": ", what);
    return std::move(*this);
  }
};

/// Returns the exit status of a process that ends with this error. Numbers below 128 are those of
/// sysexits.h. Numbers from 128 on mean that the same command may succeed later.
constexpr int exit_code(ErrorCode code) {
  switch (code) {
    case ErrorCode::kUsage:
      return 64;
    case ErrorCode::kBadData:
      return 65;
    case ErrorCode::kNoInput:
      return 66;
    case ErrorCode::kUnavailable:
      return 69;
    case ErrorCode::kBug:
      return 70;
    case ErrorCode::kCannotCreate:
      return 73;
    case ErrorCode::kIo:
      return 74;
    case ErrorCode::kPermission:
      return 77;
    case ErrorCode::kConfig:
      return 78;
    case ErrorCode::kMalformed:
      return 65;
    case ErrorCode::kUnsupported:
      return 69;
    case ErrorCode::kInterrupted:
      return 130;
    case ErrorCode::kTerminated:
      return 143;
    case ErrorCode::kPeersLost:
      return 180;
  }
  return 70;
}

/// Returns the first code with this exit status, for the end of another program.
constexpr ErrorCode error_code_of(int status) {
  for (auto c = uint8_t(ErrorCode::kUsage); c <= uint8_t(ErrorCode::kTerminated); ++c)
    if (exit_code(ErrorCode(c)) == status) return ErrorCode(c);
  return status > 128 ? ErrorCode::kInterrupted : ErrorCode::kUnavailable;
}

template <typename T>
class [[nodiscard]] Result {
 public:
  using value_type = T;
  Result(T value)
      : state_(std::move(value)) {}  // NOLINT(google-explicit-constructor): a value is a Result
  Result(Error error)
      : state_(std::move(error)) {}  // NOLINT(google-explicit-constructor): so is an Error

  bool has_value() const { return state_.index() == 0; }
  explicit operator bool() const { return has_value(); }
  T& value() & {
    DP_CHECK(has_value(), error_what());
    return std::get<0>(state_);
  }
  const T& value() const& {
    DP_CHECK(has_value(), error_what());
    return std::get<0>(state_);
  }
  T&& value() && {
    DP_CHECK(has_value(), error_what());
    return std::get<0>(std::move(state_));
  }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(*this).value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }
  Error& error() & {
    DP_CHECK(!has_value());
    return std::get<1>(state_);
  }
  const Error& error() const& {
    DP_CHECK(!has_value());
    return std::get<1>(state_);
  }
  Error&& error() && {
    DP_CHECK(!has_value());
    return std::get<1>(std::move(state_));
  }

  /// Prefixes the error's text with "parts: ". A value stays unchanged.
  template <typename... Parts>
  Result context(const Parts&... parts) && {
    if (has_value()) return std::move(*this);
    return std::move(std::get<1>(state_)).with_context(parts...);
  }

 private:
  std::string error_what() const { return has_value() ? std::string() : std::get<1>(state_).what; }
  std::variant<T, Error> state_;
};

template <>
class [[nodiscard]] Result<void> {
 public:
  using value_type = void;
  Result() = default;
  Result(Error error) : error_(std::move(error)) {}  // NOLINT(google-explicit-constructor)
  bool has_value() const { return !error_.has_value(); }
  explicit operator bool() const { return has_value(); }
  Error& error() & {
    DP_CHECK(!has_value());
    return *error_;
  }
  const Error& error() const& {
    DP_CHECK(!has_value());
    return *error_;
  }
  Error&& error() && {
    DP_CHECK(!has_value());
    return *std::move(error_);
  }
  template <typename... Parts>
  Result context(const Parts&... parts) && {
    if (has_value()) return {};
    return std::move(*error_).with_context(parts...);
  }

 private:
  std::optional<Error> error_;
};

}  // namespace downpour

#define DP_CONCAT_INNER(a, b) a##b
#define DP_CONCAT(a, b) DP_CONCAT_INNER(a, b)

/// DP_TRY(const Bytes bytes, storage.read_file(path)); declares the value, or returns the Error.
#define DP_TRY(declaration, ...)                               \
  auto DP_CONCAT(dp_result_, __LINE__) = (__VA_ARGS__);        \
  if (!DP_CONCAT(dp_result_, __LINE__)) {                      \
    return std::move(DP_CONCAT(dp_result_, __LINE__)).error(); \
  }                                                            \
  declaration = std::move(DP_CONCAT(dp_result_, __LINE__)).value()

/// DP_TRY_VOID(file.sync()); returns the Error if there is one.
#define DP_TRY_VOID(...)                                      \
  if (auto dp_void_result = (__VA_ARGS__); !dp_void_result) { \
    return std::move(dp_void_result).error();                 \
  }                                                           \
  static_assert(true)
