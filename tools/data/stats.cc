// `downpour data stats`: statistics of every field of a data set.
#include <cmath>
#include <cstdio>

#include <nlohmann/json.hpp>

#include "shared/base/hash.h"
#include "shared/base/human.h"
#include "shared/data/reading/batch_reader.h"
#include "tools/data/column_stats.h"
#include "tools/data/look.h"
#include "tools/data/record_walk.h"

namespace downpour::tools {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kBars = 16, kTop = 3, kTopJson = 20, kBadKept = 20;

struct FieldStats {
  uint64_t missing = 0;                                    // records
  uint64_t integers = 0, reals = 0, texts = 0, pairs = 0;  // values
  uint64_t not_finite = 0;
  size_t most = 0;  // largest number of values in a record
  Moments moments;  // of numbers, or of the lengths of texts in bytes
  Histogram histogram;
  HyperLogLog distinct;
  FrequentValues frequent;

  void add_number(double value) {
    if (!std::isfinite(value)) {
      ++not_finite;
      return;
    }
    moments.add(value);
    if (std::abs(value) <= Histogram::kLargest) histogram.add(value);
  }
  void add(const data::FieldValues& values, std::string& scratch) {
    missing += values.missing() && !values.list;
    most = std::max(most, values.count());
    for (size_t i = 0; i < values.count(); ++i) {
      scratch.clear();
      switch (values.kind) {
        case data::ValueKind::kInteger:
          ++integers;
          add_number(double(values.integers[i]));
          data::append_number(scratch, values.integers[i]);
          break;
        case data::ValueKind::kReal:
          ++reals;
          add_number(values.reals[i]);
          data::append_number(scratch, values.reals[i], values.single);
          break;
        case data::ValueKind::kText:
          ++texts;
          add_number(double(values.texts[i].size()));
          scratch = values.texts[i];
          break;
        case data::ValueKind::kPairs:
          ++pairs;
          add_number(values.reals[i]);
          data::append_number(scratch, values.integers[i]);
          break;
        case data::ValueKind::kNone:
          break;
      }
      distinct.add(mix64(hash_string(scratch)));
      frequent.add(scratch);
    }
  }
  uint64_t values() const { return integers + reals + texts + pairs; }
  std::string kind() const {
    std::string name = texts > 0 && texts < values() ? "mixed"
                       : texts > 0                   ? "text"
                       : pairs > 0                   ? "pairs"
                       : reals > 0                   ? "real"
                       : integers > 0                ? "integer"
                                                     : "-";
    return most > 1 ? name + str("[", most, "]") : name;
  }
};

std::string figure(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.4g", value);
  return text;
}
std::string percent(uint64_t part, uint64_t whole) {
  if (part == 0) return "0";
  char text[32];
  std::snprintf(text, sizeof text, "%.3g %%", 100.0 * double(part) / double(whole));
  return text;
}
std::string top_text(const FieldStats& stats) {
  std::string out;
  for (const FrequentValues::Entry& entry : stats.frequent.top(kTop)) {
    if (entry.count * 200 < stats.values()) break;  // below 0.5 %
    data::FieldValues shown;
    shown.add_text(entry.value);
    out += str(out.empty() ? "" : ", ", value_text(shown, 16), " ",
               percent(entry.count, stats.values()));
  }
  return out.empty() ? "-" : out;
}

std::string stats_text(const std::vector<data::ValueField>& fields,
                       const std::vector<FieldStats>& stats, uint64_t records) {
  std::vector<std::vector<std::string>> rows = {{"field", "kind", "top values", "histogram",
                                                 "missing", "distinct", "min", "max", "mean",
                                                 "std"}};
  bool any_text = false, any_pairs = false;
  for (size_t i = 0; i < fields.size(); ++i) {
    const FieldStats& s = stats[i];
    data::FieldValues name;
    name.add_text(fields[i].name);
    std::vector<std::string> row = {value_text(name, 24), s.kind(), top_text(s)};
    const bool any = s.moments.count > 0;
    row.push_back(any ? bars(s.histogram.bins(kBars)) : "");
    row.push_back(percent(s.missing, records));
    row.push_back(grouped(uint64_t(s.distinct.estimate() + 0.5)));
    for (const double value : {s.moments.min, s.moments.max, s.moments.mean, s.moments.deviation()})
      row.push_back(any ? figure(value) : "-");
    rows.push_back(std::move(row));
    any_text |= s.texts > 0;
    any_pairs |= s.pairs > 0;
  }
  std::string out = table_text(rows, 4);
  out += grouped(records) + " records; the histogram spans min to max\n";
  if (any_text) out += "for text, min, max, mean, std and histogram refer to the length in bytes\n";
  if (any_pairs)
    out +=
        "for pairs, distinct and top values refer to the keys, the other columns to the values\n";
  return out;
}

Json stats_json(const std::vector<data::ValueField>& fields, const std::vector<FieldStats>& stats,
                uint64_t records, uint64_t bad) {
  Json list = Json::array();
  for (size_t i = 0; i < fields.size(); ++i) {
    const FieldStats& s = stats[i];
    Json top = Json::array();
    for (const FrequentValues::Entry& entry : s.frequent.top(kTopJson))
      top.push_back({{"value", entry.value}, {"count", entry.count}});
    Json one = {{"name", fields[i].name},     {"kind", s.kind()},
                {"values", s.values()},       {"missing", s.missing},
                {"not_finite", s.not_finite}, {"distinct", uint64_t(s.distinct.estimate() + 0.5)}};
    if (s.moments.count > 0) {
      one["min"] = s.moments.min;
      one["max"] = s.moments.max;
      one["mean"] = s.moments.mean;
      one["std"] = s.moments.deviation();
      one["histogram"] = s.histogram.bins(kBars);
    }
    one["top"] = std::move(top);
    one["top_error"] = s.frequent.error();
    list.push_back(std::move(one));
  }
  return {{"records", records}, {"bad", bad}, {"fields", std::move(list)}};
}

}  // namespace

Result<Rejected> show_stats(const DataSet& set, uint64_t most, const LookOptions& options,
                            std::ostream& out) {
  DP_TRY(std::vector<data::ValueField> fields, fields_of(set));
  const data::Unnamed unnamed = set.declared ? data::Unnamed::kIgnore : data::Unnamed::kAdd;
  DP_TRY(RecordWalk walk, RecordWalk::open(set, options.worker, options.epoch_index));
  std::vector<FieldStats> stats;
  Rejected bad;
  std::unique_ptr<data::RecordDecoder> decoder;
  const plan::FileInfo* decoded = nullptr;
  RawRecord record;
  std::vector<data::FieldValues> values;
  std::string scratch;
  uint64_t met = 0, good = 0;
  for (; most == 0 || met < most; ++met) {
    DP_TRY(const bool more, walk.next(record));
    if (!more) break;
    if (met % kRecordsPerLook == 0) {
      if (options.stopped()) return interrupted_error();
      options.progress(met, walk.progress_bytes(), walk.total_bytes());
    }
    if (decoded != &walk.file()) {
      decoded = &walk.file();
      if (decoder != nullptr) fields = decoder->fields();
      DP_TRY(decoder, make_decoder(readable_data(set), decoded->path, fields, unnamed));
    }
    data::Fault fault = record.fault;
    if (fault.reason != nullptr || !decoder->decode(record, values, fault)) {
      if (bad.count++ < kBadKept)
        bad.first.push_back(data::bad_record_error(fault, walk.where(record)));
      continue;
    }
    for (size_t i = stats.size(); i < values.size(); ++i) {
      stats.emplace_back().missing = good;  // all earlier records lack this field
    }
    for (size_t i = 0; i < values.size(); ++i) stats[i].add(values[i], scratch);
    ++good;
  }
  if (decoder != nullptr) fields = decoder->fields();
  stats.resize(fields.size());
  if (options.json) {
    out << stats_json(fields, stats, good, bad.count)
               .dump(-1, ' ', false, Json::error_handler_t::replace)
        << "\n";
  } else {
    out << stats_text(fields, stats, good);
  }
  return bad;
}

}  // namespace downpour::tools
