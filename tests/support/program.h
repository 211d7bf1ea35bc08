// Program: runs one of Downpour's programs as a user would, and records its output and exit status.
#pragma once

#include <string>
#include <sys/types.h>
#include <vector>

#include "tests/support/scratch_dir.h"

namespace downpour::testing {

struct Ended {
  int status = -1;  // exit status; 128 + signal number if a signal ended it
  bool timed_out = false;
  std::string out, err;
};

/// One process. The destructor kills it.
class Program {
 public:
  /// Starts `name` from the build's bin folder. Its output goes to files in `folder`.
  Program(const std::string& name, const std::vector<std::string>& arguments,
          const std::string& folder);
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;
  ~Program();
  pid_t pid() const { return pid_; }
  void signal(int number) const;
  /// Waits until the process ends. Kills it after `seconds`. A sanitizer slows the program down, so
  /// all waits are then five times as long.
  Ended wait(double seconds = 60);
  /// Waits up to `seconds` until stderr contains `text`. Returns whether it does.
  bool saw(const std::string& text, double seconds = 20) const;
  /// Returns the children of this process whose command line contains `name`.
  std::vector<pid_t> children(const std::string& name) const;

 private:
  pid_t pid_ = -1;
  std::string out_path_, err_path_;
};

std::string read_text(const std::string& path);

}  // namespace downpour::testing
