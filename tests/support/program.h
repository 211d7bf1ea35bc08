// Program: runs one of ours as a user would, and keeps what it printed and how it ended.
#pragma once

#include <string>
#include <sys/types.h>
#include <vector>

#include "tests/support/scratch_dir.h"

namespace downpour::testing {

struct Ended {
  int status = -1;  // exit status; 128 + signal where it was killed
  bool timed_out = false;
  std::string out, err;
};

class Program {
 public:
  /// Starts `name` (in the build's bin folder) with arguments, output to files below `folder`.
  Program(const std::string& name, const std::vector<std::string>& arguments,
          const std::string& folder);
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;
  ~Program();
  pid_t pid() const { return pid_; }
  void signal(int number) const;
  /// Waits; after `seconds` it is killed.
  Ended wait(double seconds = 60);
  /// Waits until stderr holds `text`.
  bool saw(const std::string& text, double seconds = 20) const;
  /// Children of this process whose program name contains `name`.
  std::vector<pid_t> children(const std::string& name) const;

 private:
  pid_t pid_ = -1;
  std::string out_path_, err_path_;
};

std::string read_text(const std::string& path);

}  // namespace downpour::testing
