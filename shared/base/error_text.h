// Error texts: how errors are shown to the user, and the explanation of each error id.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "shared/base/result.h"

namespace downpour {

/// The page that `downpour explain DP-2104` prints. The first digit of an id is its group: 1
/// command line, 2 job and environment, 3 data, 4 network and processes, 5 run folder and
/// checkpoints, 6 versions, 8 signals, 9 bugs.
struct ErrorText {
  std::string_view id;
  std::string_view title;
  std::string_view text;  // meaning, causes, and what to do
};

/// Returns all error texts, sorted by id.
std::span<const ErrorText> error_texts();

/// Returns null if there is no such id.
const ErrorText* find_error_text(std::string_view id);

/// Returns the error's own id, or the general id of its code. So every error has an id.
std::string error_id(const Error& error);

/// Returns text of unknown origin in a form that is safe for a terminal. Control characters and
/// bytes that are not UTF-8 become "\x1b" and so on. Tabs stay. The text after a line break is
/// indented to start under the first line.
std::string printable(std::string_view text);

/// Return the printable text cut to `bytes_max` bytes. printable_line() returns one line ("\x0a"
/// for a line break); printable_lines() keeps line breaks and tabs. Both return their own output
/// unchanged.
std::string printable_line(std::string_view text, size_t bytes_max = 4096);
std::string printable_lines(std::string_view text, size_t bytes_max = 4096);

/// Returns "error: what [DP-2104]", then "where: ..." and "hint: ..." if they are not empty. Each
/// line ends in a newline. All three texts pass through printable(), because they may come from a
/// file or a peer. `color` adds ANSI colors.
std::string format_error(const Error& error, bool color);

/// Prints the error to stderr without color and returns its exit code, for the end of a program.
int report_error(const Error& error);

/// Returns the page for an id ("DP-2104", "dp-2104" or "2104"). Error: kUsage for an unknown id;
/// the hint lists all ids.
Result<std::string> explain_error(std::string_view id);

}  // namespace downpour
