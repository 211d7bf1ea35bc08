// Intervals and sizes of a job file: "10m", a number of steps, or "epoch"; "512MiB".
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "shared/job/job.h"

namespace downpour {

/// A time such as "500ms", "90s", "10m", "1.5h" or "2d" in nanoseconds; none where it is no such
/// text, or beyond a century.
std::optional<int64_t> parse_duration(std::string_view text);
/// The shortest text that parse_duration() reads as `ns`.
std::string duration_text(int64_t ns);

/// "epoch", or a time above 0. (Steps are a number in the file, not a text.)
std::optional<Interval> parse_interval(std::string_view text);

/// A size such as "4096", "512MiB" or "2GB" (KiB, MiB, GiB, TiB: powers of 1,024; KB, MB, GB, TB:
/// of 1,000) in bytes; none where it is no such text, or beyond 10^15.
std::optional<uint64_t> parse_bytes(std::string_view text);

}  // namespace downpour
