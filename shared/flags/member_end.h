// The end of a program that is a member of a cluster.
#pragma once

#include <mutex>
#include <string>
#include <string_view>
#include <utility>

namespace downpour {

/// The end of the reason of a member that has never heard of the chief.
constexpr std::string_view kNoAnswer = "does not answer";

/// Prints why a member ends with `code`, and returns the code. `endpoint` is that of the chief. If
/// the chief has never answered, the error says whether its name is known, and what to check.
int report_end(int code, const std::string& reason, const std::string& endpoint);

/// The end of a process whose parts run on several threads. Only the first failure is reported,
/// because the other parts end for the same reason, or because of it.
class FirstEnd {
 public:
  /// `endpoint` is that of the chief.
  explicit FirstEnd(std::string endpoint) : endpoint_(std::move(endpoint)) {}
  /// Records how one part ended. Any thread may call it.
  void add(int code, const std::string& reason) {
    const std::lock_guard lock(mutex_);
    if (code_ == 0) code_ = report_end(code, reason, endpoint_);
  }
  /// Returns the code of the first failure, or 0.
  int code() const {
    const std::lock_guard lock(mutex_);
    return code_;
  }

 private:
  mutable std::mutex mutex_;
  std::string endpoint_;
  int code_ = 0;
};

}  // namespace downpour
