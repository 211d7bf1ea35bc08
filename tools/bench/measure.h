// What the benchmarks share: time, repetition, processes of their own, and a folder for scratch.
#pragma once

#include <functional>
#include <string>
#include <sys/types.h>
#include <vector>

#include "shared/base/check.h"
#include "shared/base/result.h"
#include "tools/bench/bench.h"

namespace downpour::tools {

/// Seconds of a clock that never goes back.
double wall_seconds();

/// The value, or the end of the benchmark with what went wrong.
template <typename T>
T must(Result<T> result) {
  DP_CHECK(result.has_value(), result.error().what, result.error().where);
  return std::move(*result);
}

/// Ours and its limit, measured in turn so that a neighbour's load falls on both: medians and the
/// range of ours.
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

/// A process forked from this one, ended with this object. The caller runs no other threads that
/// hold what the child needs.
class Child {
 public:
  using Tell = std::function<void(const std::string& line)>;
  /// `body` runs in the child, tells its parent one line (where it listens), and goes on until it
  /// is killed.
  explicit Child(const std::function<void(const Tell& tell)>& body);
  /// A program with its arguments, whose output goes to the file `log`.
  Child(const std::vector<std::string>& command, const std::string& log);
  ~Child();
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  pid_t pid() const { return pid_; }
  /// What `body` told; empty for a program.
  const std::string& told() const { return told_; }
  bool running();

 private:
  pid_t pid_ = -1;
  std::string told_;
};

/// A folder that goes with this object. Short: a socket's path has at most 107 bytes.
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
