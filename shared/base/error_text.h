// Errors as the user sees them, and what each id means.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "shared/base/result.h"

namespace downpour {

/// What `downpour explain DP-2104` says. The first digit groups: 1 command line, 2 job and
/// environment, 3 data, 4 network and processes, 5 run folder and checkpoints, 9 bugs.
struct ErrorText {
  std::string_view id;
  std::string_view title;
  std::string_view text;  // what it means, how it comes about, what to do
};

/// All of them, by id.
std::span<const ErrorText> error_texts();

/// Null: no such id.
const ErrorText* find_error_text(std::string_view id);

/// The error's own id, or the general one of its code: every error has an id.
std::string error_id(const Error& error);

/// Text from outside as a terminal may have it: control characters, and bytes that are no UTF-8, as
/// "\x1b"; a line break keeps its line.
std::string printable(std::string_view text);

/// The same cut to `bytes_max` bytes, as one line ("\x0a" for a line break) or with its lines and
/// tabs as they are. Text that has come out of either comes out of it again unchanged.
std::string printable_line(std::string_view text, size_t bytes_max = 4096);
std::string printable_lines(std::string_view text, size_t bytes_max = 4096);

/// "error: what [DP-2104]", then "where: ..." and "hint: ..." where they are known; each line ends
/// in a newline. They are printable(), since they may come from a file or a peer. `color`: ANSI.
std::string format_error(const Error& error, bool color);

/// Shows it on stderr, plain; returns the exit code that stands for it: how a program ends.
int report_error(const Error& error);

/// The page for an id ("DP-2104", "dp-2104" or "2104"). Errors: kUsage with the nearest id.
Result<std::string> explain_error(std::string_view id);

}  // namespace downpour
