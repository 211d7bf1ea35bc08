#include "tools/bench/report.h"

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <thread>

#include <nlohmann/json.hpp>

#include "shared/base/str.h"

namespace downpour::tools {
namespace {

/// Formats a number without an exponent, with 1 decimal from 100 on, 2 from 1 on, and otherwise 4.
std::string number(double value) {
  const double magnitude = value < 0 ? -value : value;
  const int decimals = magnitude >= 100 ? 1 : magnitude >= 1 ? 2 : 4;
  char text[64];
  std::snprintf(text, sizeof text, "%.*f", decimals, value);
  return text;
}

std::string processor_name() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);) {
    if (line.rfind("model name", 0) != 0) continue;
    const size_t colon = line.find(": ");
    if (colon != std::string::npos) return line.substr(colon + 2);
  }
  return "unknown processor";
}

}  // namespace

std::string machine_line() {
#if defined(__AVX512F__)
  const char* const instructions = "AVX-512";
#elif defined(__AVX2__)
  const char* const instructions = "AVX2";
#else
  const char* const instructions = "baseline";
#endif
#ifdef __OPTIMIZE__
  const char* const optimized = "optimized";
#else
  const char* const optimized = "not optimized";
#endif
  return str(processor_name(), ", ", std::thread::hardware_concurrency(), " cores, ", instructions,
             ", ", optimized, ", ", __VERSION__);
}

std::string bench_text(std::span<const BenchResult> results) {
  size_t width = 0;
  for (const BenchResult& result : results) width = std::max(width, result.name.size());
  std::string text = machine_line() + "\n";
  for (const BenchResult& result : results) {
    char line[512];
    std::snprintf(line, sizeof line, "%-*s  %10s %-9s", int(width), result.name.c_str(),
                  number(result.value).c_str(), result.unit.c_str());
    text += line;
    if (result.bound) {
      text += str("  promised: at most ", number(result.limit_value), " (", result.limit_name, ")");
    } else if (!result.limit_name.empty()) {
      std::snprintf(line, sizeof line, "  %.2f of %s (%s)", result.ratio(),
                    result.limit_name.c_str(), number(result.limit_value).c_str());
      text += line;
    }
    if (result.high > 0) text += str("  [", number(result.low), " .. ", number(result.high), "]");
    text += "\n";
  }
  return text;
}

std::string bench_json(std::span<const BenchResult> results) {
  nlohmann::json list = nlohmann::json::array();
  for (const BenchResult& result : results) {
    nlohmann::json entry = {{"name", result.name}, {"value", result.value}, {"unit", result.unit}};
    if (!result.limit_name.empty()) {
      entry["limit_name"] = result.limit_name;
      entry["limit_value"] = result.limit_value;
      entry["ratio"] = result.ratio();
      entry["bound"] = result.bound;
    }
    if (result.high > 0) {
      entry["low"] = result.low;
      entry["high"] = result.high;
    }
    list.push_back(std::move(entry));
  }
  return nlohmann::json{{"machine", machine_line()}, {"results", std::move(list)}}.dump();
}

}  // namespace downpour::tools
