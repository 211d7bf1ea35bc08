#include "tools/cli/importance.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <numeric>
#include <set>
#include <thread>

#include <nlohmann/json.hpp>

#include "shared/base/hash.h"
#include "shared/base/human.h"
#include "shared/base/rng.h"
#include "shared/data/formats/codec.h"
#include "shared/data/reading/batch_columns.h"
#include "shared/job/field_output.h"
#include "shared/job/formats.h"
#include "shared/job/losses.h"
#include "shared/metrics/metrics.h"
#include "tools/data/record_walk.h"
#include "tools/embedded/line_evaluator.h"

namespace downpour::tools {
namespace {

constexpr uint32_t kLinesPerBatch = 4096;

/// The records, by column. A piece is what a line has of the column: a cell, or a member of the
/// object.
struct Columns {
  std::vector<std::string> names;
  std::vector<std::vector<std::string>> pieces;  // by column, by record
  uint64_t records = 0;

  size_t place(const std::string& name) {
    const auto found = std::ranges::find(names, name);
    if (found != names.end()) return size_t(found - names.begin());
    names.push_back(name);
    pieces.emplace_back(records);
    return names.size() - 1;
  }
};

/// Returns the cell of a table.
std::string cell_of(std::string_view text, DataFormat format) {
  if (format != DataFormat::kCsv || text.find_first_of(",\"\r\n") == std::string_view::npos)
    return std::string(text);
  std::string cell = "\"";
  for (const char c : text) cell.append(c == '"' ? 2 : 1, c);
  return cell + '"';
}

/// Reads the records of one job.
class ColumnReader {
 public:
  explicit ColumnReader(const Job& job) : job_(job) {
    set_.job = job;
    set_.from_job = set_.declared = true;
    set_.job.data.source = job.eval.source;
  }

  Result<Columns> read() {
    DP_TRY(set_.files, data::list_files(set_.data(), set_.data().source, set_.job.base_dir));
    DP_TRY(RecordWalk walk, RecordWalk::open(set_, {}, 0));
    for (RawRecord record;;) {
      DP_TRY(const bool more, walk.next(record));
      if (!more) break;
      data::Fault fault = record.fault;
      bool good = fault.reason == nullptr;
      if (good && is_json()) {
        good = add_object(record.bytes, fault);
      } else if (good) {
        DP_TRY(good, add_cells(walk.file().path, record, fault));
      }
      if (!good) return data::bad_record_error(fault, walk.where(record));
      ++columns_.records;
      for (std::vector<std::string>& pieces : columns_.pieces) pieces.resize(columns_.records);
    }
    return std::move(columns_);
  }

 private:
  bool is_json() const { return job_.data.format == DataFormat::kJsonl; }

  void put(const std::string& name, std::string piece) {
    std::vector<std::string>& pieces = columns_.pieces[columns_.place(name)];
    pieces.resize(columns_.records);
    pieces.push_back(std::move(piece));
  }

  bool add_object(std::string_view line, data::Fault& fault) {
    constexpr int kDepthMax = 1024;  // dump() recurses
    bool deep = false;
    const auto shallow = [&](int depth, nlohmann::ordered_json::parse_event_t, auto&) {
      deep = deep || depth > kDepthMax;
      return depth <= kDepthMax;
    };
    const auto object = nlohmann::ordered_json::parse(line, shallow, /*allow_exceptions=*/false);
    if (deep || !object.is_object()) {
      fault.reason = deep ? "is nested too deeply" : "is not a JSON object";
      return false;
    }
    constexpr auto kReplace = nlohmann::ordered_json::error_handler_t::replace;
    for (const auto& [name, value] : object.items()) {
      put(name, str(nlohmann::ordered_json(name).dump(-1, ' ', false, kReplace), ":",
                    value.dump(-1, ' ', false, kReplace)));
    }
    return true;
  }

  Result<bool> add_cells(const std::string& path, const RawRecord& record, data::Fault& fault) {
    if (decoder_ == nullptr || path != path_) {
      path_ = path;
      std::vector<data::ValueField> fields;
      for (const FieldSpec& field : job_.data.fields) {
        if (is_cross(field)) continue;
        const std::string& name = field.source_name();
        if (std::ranges::count(fields, name, &data::ValueField::name) > 0) continue;
        fields.push_back({.name = name, .kind = data::ValueKind::kText, .spec = {.name = name}});
      }
      DP_TRY(decoder_,
             data::make_decoder(set_.data(), path, std::move(fields), data::Unnamed::kIgnore));
    }
    if (!decoder_->decode(record, values_, fault)) return false;
    for (size_t i = 0; i < values_.size(); ++i) {
      const data::FieldValues& value = values_[i];
      put(decoder_->fields()[i].name,
          value.missing() ? "" : cell_of(value.texts.at(0), job_.data.format));
    }
    return true;
  }

  const Job& job_;
  DataSet set_;
  Columns columns_;
  std::string path_;
  std::unique_ptr<data::RecordDecoder> decoder_;
  std::vector<data::FieldValues> values_;
};

/// Evaluates the records, one column of them shuffled.
class Trial {
 public:
  static Result<Trial> make(std::shared_ptr<const Scorer> scorer, const Job& job,
                            const Columns& columns) {
    Job lines = job;
    const bool json = job.data.format == DataFormat::kJsonl;
    if (!json) {
      lines.data.columns = columns.names;
      lines.data.header = false;
    }
    Trial trial(columns, json ? ',' : job.data.format == DataFormat::kTsv ? '\t' : ',', json);
    if (!json) lines.data.delimiter.clear();
    DP_TRY(trial.evaluator_, LineEvaluator::make(std::move(scorer), std::move(lines)));
    return trial;
  }

  /// Returns the sums of the first output. Record i has the value of record order[i] in `column`.
  Result<OutputSums> run(size_t column, const std::vector<uint32_t>* order) {
    std::vector<OutputSums> sums;
    DP_TRY_VOID(for_each_batch(column, order, [&](std::span<const std::string_view> lines) {
      return evaluator_->add(lines, sums);
    }));
    return sums.at(0);
  }

  /// Returns for each record whether the job's filter keeps it.
  Result<std::vector<bool>> kept() {
    std::vector<bool> all;
    DP_TRY_VOID(
        for_each_batch(0, nullptr, [&](std::span<const std::string_view> lines) -> Result<void> {
          DP_TRY(const std::vector<bool> kept, evaluator_->kept(lines));
          all.insert(all.end(), kept.begin(), kept.end());
          return {};
        }));
    return all;
  }

 private:
  Trial(const Columns& columns, char between, bool json)
      : columns_(columns), between_(between), json_(json) {}

  template <typename Each>
  Result<void> for_each_batch(size_t column, const std::vector<uint32_t>* order, Each&& each) {
    for (uint64_t begin = 0; begin < columns_.records; begin += kLinesPerBatch) {
      const uint64_t end = std::min<uint64_t>(columns_.records, begin + kLinesPerBatch);
      text_.clear();
      std::vector<size_t> ends;
      for (uint64_t r = begin; r < end; ++r) {
        append(r, column, order);
        ends.push_back(text_.size());
        text_ += '\n';
      }
      text_.append(data::kPadBytes, '\0');
      std::vector<std::string_view> lines;
      for (size_t at = 0; const size_t line_end : ends) {
        lines.push_back(std::string_view(text_).substr(at, line_end - at));
        at = line_end + 1;
      }
      DP_TRY_VOID(each(lines));
    }
    return {};
  }

  void append(uint64_t record, size_t column, const std::vector<uint32_t>* order) {
    if (json_) text_ += '{';
    bool first = true;
    for (size_t c = 0; c < columns_.pieces.size(); ++c) {
      const uint64_t from = c == column && order != nullptr ? (*order)[record] : record;
      const std::string& piece = columns_.pieces[c][from];
      if (json_ && piece.empty()) continue;  // the object has no such member
      if (!first) text_ += between_;
      text_ += piece;
      first = false;
    }
    if (json_) text_ += '}';
  }

  const Columns& columns_;
  char between_;
  bool json_;
  std::unique_ptr<LineEvaluator> evaluator_;
  std::string text_;
};

std::vector<uint32_t> shuffled(uint64_t records, const std::string& column, uint64_t seed,
                               uint32_t repeat) {
  std::vector<uint32_t> order(records);
  std::iota(order.begin(), order.end(), 0U);
  Rng rng(hash_combine(hash_string(column, mix64(seed)), repeat));
  for (size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[rng.below(i)]);
  return order;
}

Result<ColumnImportance> importance_of(Trial& trial, const Columns& columns, size_t column,
                                       const std::string& metric, double base,
                                       const ImportanceOptions& options) {
  ColumnImportance result{.column = columns.names[column]};
  std::vector<double> rises;
  for (uint32_t repeat = 0; repeat < options.repeats; ++repeat) {
    const auto order = shuffled(columns.records, result.column, options.seed, repeat);
    DP_TRY(const OutputSums sums, trial.run(column, &order));
    rises.push_back(compute_metric(metric, {.sums = sums}).value - base);
  }
  for (const double rise : rises) result.rise += rise / double(rises.size());
  for (const double rise : rises)
    result.deviation += (rise - result.rise) * (rise - result.rise) / double(rises.size());
  result.deviation = std::sqrt(result.deviation);
  return result;
}

/// Returns the places of the columns that the model reads.
std::vector<size_t> read_columns(const Job& job, Columns& columns) {
  std::set<std::string> read;
  for (const LayerSpec& layer : job.model.layers)
    read.insert(layer.inputs.begin(), layer.inputs.end());
  for (const FieldSpec& field : job.data.fields) {
    if (field.transform.empty() || !read.contains(field.name)) continue;
    if (const auto* const cross = std::get_if<ops::Cross>(&field.transform.front()))
      read.insert(cross->fields.begin(), cross->fields.end());
  }
  std::vector<size_t> places;
  for (const FieldSpec& field : job.data.fields) {
    const bool is_role = std::ranges::any_of(job.model.outputs, [&](const OutputSpec& output) {
      return output.target == field.name || output.weights == field.name;
    });
    const bool computed =
        !field.transform.empty() && std::holds_alternative<ops::Cross>(field.transform.front());
    if (is_role || computed || !read.contains(field.name)) continue;
    std::string name = field.source_name();
    if (job.data.format == DataFormat::kJsonl) name = name.substr(0, name.find('.'));
    const size_t place = columns.place(name);
    if (std::ranges::count(places, place) == 0) places.push_back(place);
  }
  return places;
}

/// Leaves out the records that the job's filter drops.
Result<void> apply_filter(const std::shared_ptr<const Scorer>& scorer, const Job& job,
                          Columns& columns) {
  DP_TRY(Trial trial, Trial::make(scorer, job, columns));
  DP_TRY(const std::vector<bool> kept, trial.kept());
  for (std::vector<std::string>& pieces : columns.pieces) {
    size_t place = 0;
    for (size_t r = 0; r < kept.size(); ++r)
      if (kept[r]) std::swap(pieces[place++], pieces[r]);
    pieces.resize(place);
  }
  columns.records = uint64_t(std::ranges::count(kept, true));
  return {};
}

}  // namespace

Result<Importance> importance(Storage& storage, const Job& job, const ImportanceOptions& options) {
  if (job.data.format != DataFormat::kCsv && job.data.format != DataFormat::kTsv &&
      job.data.format != DataFormat::kJsonl) {
    return Error{ErrorCode::kUsage,
                 str("the data are ", traits_of(job.data.format).name,
                     ", but importance shuffles columns of csv, tsv or JSON lines"),
                 "--data", "for arrays and TFRecords: downpour shard DATA --to jsonl -o FOLDER"};
  }
  DP_TRY(std::shared_ptr<const Scorer> scorer, Scorer::open(storage, job.run_dir));
  DP_TRY(Columns columns, ColumnReader(job).read());
  if (!job.data.filter.empty()) DP_TRY_VOID(apply_filter(scorer, job, columns));
  if (columns.records < 2) {
    const char* const kept = job.data.filter.empty() ? "" : " that the job's filter keeps";
    return Error{ErrorCode::kBadData, str("the data have ", columns.records, " records", kept),
                 "--data", "importance needs at least two records"};
  }
  const std::vector<size_t> places = read_columns(job, columns);
  const OutputSpec& output = job.model.outputs.front();
  const LossInfo& loss = *find_loss(output.loss);
  Importance result{.output = output.name,
                    .metric = loss.is_regression() ? "rmse" : loss.metric,
                    .records = columns.records,
                    .columns = std::vector<ColumnImportance>(places.size())};
  DP_TRY(Trial plain, Trial::make(scorer, job, columns));
  DP_TRY(const OutputSums sums, plain.run(0, nullptr));
  result.base = compute_metric(result.metric, {.sums = sums}).value;
  std::atomic<size_t> next = 0;
  std::vector<Result<void>> ended(std::min<size_t>(options.threads, places.size()));
  const auto work = [&]() -> Result<void> {
    DP_TRY(Trial trial, Trial::make(scorer, job, columns));
    for (size_t i = next++; i < places.size(); i = next++) {
      DP_TRY(result.columns[i],
             importance_of(trial, columns, places[i], result.metric, result.base, options));
    }
    return {};
  };
  {
    std::vector<std::jthread> threads;
    for (Result<void>& each : ended) threads.emplace_back([&] { each = work(); });
  }
  for (Result<void>& each : ended) DP_TRY_VOID(std::move(each));
  std::ranges::stable_sort(result.columns, std::ranges::greater{}, &ColumnImportance::rise);
  return result;
}

std::string importance_text(const Importance& importance) {
  const auto number = [](double value) {
    char text[32];
    std::snprintf(text, sizeof(text), "%.6f", value);
    return std::string(text);
  };
  std::vector<std::vector<std::string>> rows = {
      {"column", str("rise of ", importance.metric), "deviation"}};
  for (const ColumnImportance& each : importance.columns)
    rows.push_back({printable(each.column), number(each.rise), number(each.deviation)});
  return str(table_text(rows, /*left_columns=*/1), importance.metric, " of ",
             printable(importance.output), " is ", number(importance.base), " on ",
             grouped(importance.records), " records\n");
}

std::string importance_json(const Importance& importance) {
  nlohmann::ordered_json json = {{"output", importance.output},
                                 {"metric", importance.metric},
                                 {"base", importance.base},
                                 {"records", importance.records},
                                 {"columns", nlohmann::ordered_json::array()}};
  for (const ColumnImportance& each : importance.columns)
    json["columns"].push_back(
        {{"column", each.column}, {"rise", each.rise}, {"deviation", each.deviation}});
  return json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace downpour::tools
