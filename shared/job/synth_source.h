// "synth:ROWS,ids=N,...": synthetic clicks as a source, for tests and experiments.
#pragma once

#include <charconv>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace downpour {

enum class SynthFormat : uint8_t { kLibsvm, kTsv, kCsv };

/// The model of the synthetic data:
///   label ~ Bernoulli(sigmoid(bias + sum_j w_j x_j + sum_f v_f,id)), bias = -1.4
///   x_j ~ N(0, 1) in steps of 0.001, cut at +-4; w_j ~ N(0, 0.2^2)
///   id_f ~ Zipf(zipf) over `ids` ids per field; v ~ N(0, 0.3^2)
/// Columns: label, I1.., C1... In libsvm: features 1..numeric, then numeric + 1 + field * ids + id.
struct SynthOptions {
  uint64_t rows = 1'000'000;
  uint32_t numeric = 13;
  uint32_t categorical = 26;
  uint32_t ids = 38461;  // per field
  double zipf = 1.1;     // exponent
  uint64_t seed = 1;     // seed of the model
  uint64_t stream = 0;   // seed of the rows: 0 for training, 1 for test data of the same model, ...
  SynthFormat format = SynthFormat::kTsv;
};

constexpr std::string_view kSynthScheme = "synth:";
constexpr uint64_t kSynthRowsMax = 1'000'000'000;
constexpr uint64_t kSynthFieldsMax = 100;
constexpr uint64_t kSynthIdsMax = 10'000'000;  // of all fields together

/// Returns the syntax of such a source.
inline std::string synth_source_hint() {
  return "write synth:ROWS, then any of numeric=, categorical=, ids=, zipf=, seed=, stream=, "
         "format=tsv|csv|libsvm, separated by commas, with the meaning of the flags of `downpour "
         "synth`; ROWS can be up to 1000000000, numeric + categorical up to 100, categorical x ids "
         "up to 10000000; for example synth:100000,ids=1000,stream=1";
}

namespace synth_detail {

template <typename T>
bool read_number(std::string_view text, T& value) {
  const auto read = std::from_chars(text.data(), text.data() + text.size(), value);
  return read.ec == std::errc{} && read.ptr == text.data() + text.size();
}

inline bool read_format(std::string_view text, SynthFormat& format) {
  format = text == "csv"      ? SynthFormat::kCsv
           : text == "libsvm" ? SynthFormat::kLibsvm
                              : SynthFormat::kTsv;
  return text == "csv" || text == "libsvm" || text == "tsv";
}

inline bool read_option(std::string_view key, std::string_view value, SynthOptions& options) {
  if (key == "numeric") return read_number(value, options.numeric);
  if (key == "categorical") return read_number(value, options.categorical);
  if (key == "ids") return read_number(value, options.ids);
  if (key == "zipf") return read_number(value, options.zipf);
  if (key == "seed") return read_number(value, options.seed);
  if (key == "stream") return read_number(value, options.stream);
  return key == "format" && read_format(value, options.format);
}

}  // namespace synth_detail

/// Returns the options. Returns nothing if the path is not a synth source or is out of bounds.
inline std::optional<SynthOptions> synth_source(std::string_view path) {
  if (!path.starts_with(kSynthScheme)) return std::nullopt;
  path.remove_prefix(kSynthScheme.size());
  SynthOptions options;
  for (bool first = true; first || !path.empty(); first = false) {
    const size_t comma = path.find(',');
    const std::string_view part = path.substr(0, comma);
    path = comma == std::string_view::npos ? std::string_view() : path.substr(comma + 1);
    if (comma != std::string_view::npos && path.empty()) return std::nullopt;
    const size_t equals = part.find('=');
    const bool good = first ? synth_detail::read_number(part, options.rows)
                            : equals != std::string_view::npos &&
                                  synth_detail::read_option(part.substr(0, equals),
                                                            part.substr(equals + 1), options);
    if (!good) return std::nullopt;
  }
  const uint64_t fields = uint64_t{options.numeric} + options.categorical;
  const bool in_bounds = options.rows >= 1 && options.rows <= kSynthRowsMax && fields >= 1 &&
                         fields <= kSynthFieldsMax && options.ids >= 1 &&
                         uint64_t{options.categorical} * options.ids <= kSynthIdsMax &&
                         options.zipf >= 0 && options.zipf <= 10;
  return in_bounds ? std::optional(options) : std::nullopt;
}

}  // namespace downpour
