// Helpers of the benchmarks: clock, repetition, child processes and a scratch folder.
#pragma once

#include <functional>
#include <string>
#include <sys/types.h>
#include <vector>

#include "shared/base/check.h"
#include "shared/base/result.h"
#include "tools/bench/bench.h"

namespace downpour::tools {

/// Returns the time of a monotonic clock in seconds.
double wall_seconds();

/// Returns the value, or aborts the benchmark with the error.
template <typename T>
T must(Result<T> result) {
  DP_CHECK(result.has_value(), result.error().what, result.error().where);
  return std::move(*result);
}

/// Collects repeated measurements of a value and of its limit. The caller measures the two in turn,
/// so that other load on the machine affects both. The result has the medians of both, and the
/// lowest and highest value.
class Repeated {
 public:
  void add(double value, double limit) {
    values_.push_back(value);
    limits_.push_back(limit);
  }
  BenchResult result(std::string name, std::string unit, std::string limit_name) const;

 private:
  std::vector<double> values_, limits_;
};

/// A process forked from this one, which the destructor kills. No other thread of the caller may
/// hold a lock that the child needs.
class Child {
 public:
  using Tell = std::function<void(const std::string& line)>;
  /// Runs `body` in the child. The body reports one line to the parent, such as its endpoint, and
  /// then runs until it is killed.
  explicit Child(const std::function<void(const Tell& tell)>& body);
  /// Runs a program with its arguments. The output goes to the file `log`.
  Child(const std::vector<std::string>& command, const std::string& log);
  ~Child();
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  pid_t pid() const { return pid_; }
  /// Returns the line that `body` reported; empty for a program.
  const std::string& told() const { return told_; }
  bool running();

 private:
  pid_t pid_ = -1;
  std::string told_;
};

/// A temporary folder that the destructor removes. Its path is short, because the path of a socket
/// has at most 107 bytes.
class ScratchDir {
 public:
  ScratchDir();
  ~ScratchDir();
  ScratchDir(const ScratchDir&) = delete;
  ScratchDir& operator=(const ScratchDir&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace downpour::tools
