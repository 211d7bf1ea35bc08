#include "chief/runtime/classes.h"

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <utility>

#include "chief/runtime/run_setup.h"
#include "chief/runtime/work_on.h"
#include "shared/base/error_text.h"
#include "shared/base/str.h"
#include "shared/data/formats/file_sample.h"
#include "shared/data/reading/dataset.h"
#include "shared/data/values/label_texts.h"
#include "shared/env/storage.h"

namespace downpour::chief {
namespace {

constexpr size_t kTextsMax = 1'000;
constexpr uint64_t kLabelRangeBytes = 8 << 20;

std::shared_ptr<const data::ReadPlan> label_plan(const DataSpec& data, const SourceSpec& source,
                                                 const std::string& label,
                                                 const std::string& base_dir,
                                                 std::vector<plan::FileInfo> files,
                                                 std::shared_ptr<data::TextCounter> counter) {
  auto plan = std::make_shared<data::ReadPlan>();
  plan->data = data;
  plan->data.shuffle = "off";
  for (FieldSpec& field : plan->data.fields) {
    if (field.name == label) field.classes.clear();
  }
  plan->layout.floats = {{label, 1}};
  plan->batch_size = 1024;
  plan->targets = {{.field = label, .counter = std::move(counter)}};
  plan->source = source;
  plan->base_dir = base_dir;
  plan->files = std::move(files);
  plan->training = false;
  return plan;
}

Result<void> read_labels(const std::shared_ptr<const data::ReadPlan>& plan,
                         const plan::ShardRange& range) {
  DP_TRY(const auto reader, data::open_shard(plan, data::Split::kAll, {}, range, 0));
  Batch batch;
  for (;;) {
    DP_TRY(const bool more, reader->next(batch));
    if (!more) return {};
  }
}

using Counts = std::map<std::string, uint64_t, std::less<>>;

/// Counts the texts of a label in all records of `source`, at most kTextsMax of them.
Result<std::shared_ptr<data::TextCounter>> read_texts(const DataSpec& data,
                                                      const SourceSpec& source,
                                                      const std::string& label,
                                                      const std::string& base_dir) {
  auto counter = std::make_shared<data::TextCounter>(kTextsMax);
  const DataSpec of_source = for_source(data, source);
  DP_TRY(auto files, data::list_files(of_source, source, base_dir));
  auto plan = label_plan(of_source, source, label, base_dir, files, counter);
  if (data::chooses_by_number(source, {})) {
    DP_TRY_VOID(data::count_pieces(*plan, kLabelRangeBytes, files));
    plan = label_plan(of_source, source, label, base_dir, files, counter);
  }
  const std::vector<plan::ShardRange> ranges = plan::cut_shards(files, kLabelRangeBytes);
  DP_TRY_VOID(work_on(ranges.size(), [&](size_t i) { return read_labels(plan, ranges[i]); }));
  return counter;
}

/// As read_texts(). Error kBadData: too many texts.
Result<Counts> count_texts(const DataSpec& data, const SourceSpec& source, const std::string& label,
                           const std::string& base_dir) {
  DP_TRY(const auto counter, read_texts(data, source, label, base_dir));
  if (!counter->overflowed()) return counter->texts();
  return Error{ErrorCode::kBadData,
               str("the target `", label, "` has more than ", kTextsMax, " different texts"),
               str("data.fields.", label), "name the column to predict: --target NAME", "DP-2107"};
}

/// Returns the labels that are none of the field's classes, the most frequent ones first.
std::vector<std::pair<std::string, uint64_t>> unknown_labels(const Counts& counts,
                                                             const FieldSpec& field) {
  std::vector<std::pair<std::string, uint64_t>> unknown;
  for (const auto& [text, count] : counts) {
    if (std::ranges::find(field.classes, text) == field.classes.end())
      unknown.emplace_back(text, count);
  }
  std::ranges::stable_sort(unknown, std::greater<>(), &std::pair<std::string, uint64_t>::second);
  return unknown;
}

/// Returns the first labels as text: '"a." (12 records), "b." (1 record) and 3 others'.
std::string labels_text(const std::vector<std::pair<std::string, uint64_t>>& labels) {
  constexpr size_t kShown = 3;
  std::string text;
  for (size_t i = 0; i < std::min(kShown, labels.size()); ++i) {
    text += str(i == 0 ? "" : ", ", "\"", printable(labels[i].first), "\" (", labels[i].second,
                labels[i].second == 1 ? " record)" : " records)");
  }
  if (labels.size() > kShown) text += str(" and ", labels.size() - kShown, " others");
  return text;
}

}  // namespace

Result<LabelClasses> find_classes(const DataSpec& data, const std::string& label,
                                  const std::string& base_dir) {
  DP_TRY(const Counts counts, count_texts(data, data.source, label, base_dir));
  LabelClasses classes;
  uint64_t most = 0;
  for (const auto& [text, count] : counts) {
    classes.texts.push_back(text);
    if (count > std::exchange(most, std::max(most, count))) classes.most_frequent = text;
  }
  if (classes.texts.size() < 2) {
    return Error{ErrorCode::kBadData,
                 str("all records have the same value of the target `", label, "`",
                     counts.empty() ? "" : str(": \"", printable(classes.most_frequent), "\"")),
                 str("data.fields.", label), "name another column to predict: --target NAME",
                 "DP-2107"};
  }
  if (classes.texts.size() == 2) {
    const std::string &first = classes.texts[0], &second = classes.texts[1];
    const bool ordered =
        data::second_is_positive(first, second).value_or(first == classes.most_frequent);
    if (!ordered) std::swap(classes.texts[0], classes.texts[1]);
  }
  return classes;
}

Result<LabelNumbers> find_numbers(DataSpec data, const std::string& label,
                                  const std::string& base_dir) {
  for (FieldSpec& field : data.fields)
    if (field.name == label) field.type = FieldType::kString;
  DP_TRY(const auto counter, read_texts(data, data.source, label, base_dir));
  LabelNumbers found{.all_known = !counter->overflowed()};
  for (const auto& [text, count] : counter->texts()) {
    double number = 0;
    if (!data::number_of(text, number)) continue;
    found.values.insert(number);
    found.texts.push_back(text);
    found.records += count;
  }
  return found;
}

std::vector<std::string> known_classes(const std::vector<std::string>& run_dirs,
                                       const std::string& label) {
  PosixStorage storage;
  for (const std::string& run_dir : run_dirs) {
    if (run_dir.empty()) continue;
    const auto job = saved_job(storage, run_dir);
    if (!job) continue;
    const FieldSpec* const field = job->data.find_field(label);
    if (field != nullptr && !field->classes.empty()) return field->classes;
  }
  return {};
}

Result<std::string> check_labels(const Job& job) {
  const SourceSpec& source = job.eval.source;
  if (source.empty() || source.is_program() || !job.data.program.empty()) return std::string();
  std::string note;
  std::set<std::string> seen;
  for (const OutputSpec& output : job.model.outputs) {
    const FieldSpec* const field = job.data.find_field(output.target);
    if (field == nullptr || field->classes.empty() || !seen.insert(field->name).second) continue;
    DP_TRY(const Counts counts, count_texts(job.data, source, field->name, job.base_dir));
    const auto unknown = unknown_labels(counts, *field);
    if (unknown.empty()) continue;
    const std::string what =
        str("none of the classes of `", field->name, "`: ", labels_text(unknown));
    if (job.eval.unknown_labels != "skip") {
      return Error{ErrorCode::kBadData, str("the evaluation data have labels that are ", what),
                   str("data.fields.", field->name, ".classes"),
                   "correct the labels, or leave their records out with eval.unknown_labels = "
                   "\"skip\" (downpour eval: --skip-unknown-labels)",
                   "DP-3000"};
    }
    uint64_t records = 0;
    for (const auto& [text, count] : unknown) records += count;
    note += str(note.empty() ? "" : "; ", "evaluations leave out ", records,
                records == 1 ? " record, whose label is " : " records, whose labels are ", what);
  }
  return note;
}

}  // namespace downpour::chief
