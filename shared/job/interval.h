// Intervals and sizes of a job file: "10m", a number of steps, or "epoch"; "512MiB".
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "shared/job/job.h"

namespace downpour {

/// Returns a time such as "500ms", "90s", "10m", "1.5h" or "2d" in nanoseconds. Returns nothing for
/// any other text, or for more than a century.
std::optional<int64_t> parse_duration(std::string_view text);
/// Returns the text with the largest unit in which `ns` is a whole number. parse_duration() reads
/// it as `ns`.
std::string duration_text(int64_t ns);

/// Reads "epoch" or a time above 0. Steps are a number in the file and not a text.
std::optional<Interval> parse_interval(std::string_view text);

/// Returns a size such as "4096", "512MiB" or "2GB" in bytes. KiB, MiB, GiB and TiB are powers of
/// 1024; KB, MB, GB and TB are powers of 1000. Returns nothing for any other text, or above 10^15.
std::optional<uint64_t> parse_bytes(std::string_view text);

}  // namespace downpour
