// `downpour data validate`: reads every record as training would, and reports bad records.
#include <algorithm>

#include <nlohmann/json.hpp>

#include "chief/runtime/run_setup.h"
#include "shared/base/error_text.h"
#include "shared/base/human.h"
#include "shared/data/formats/numpy/arrays.h"
#include "shared/data/reading/batch_reader.h"
#include "shared/data/reading/open_shard.h"
#include "shared/job/field_output.h"
#include "shared/job/formats.h"
#include "shared/job/preset.h"
#include "shared/model/graph.h"
#include "tools/data/look.h"
#include "tools/data/record_cursor.h"

namespace downpour::tools {
namespace {

using data::ReadPlan;

/// Returns a layout that contains every field, although no model reads them.
InputLayout layout_of(const std::vector<FieldSpec>& fields) {
  InputLayout layout;
  for (const FieldSpec& field : fields) {
    if (!is_sparse(field)) {
      layout.floats.push_back({field.name, uint32_t(data::elements_of(field.shape))});
      continue;
    }
    layout.bags.push_back({field.name, uint32_t(layout.tables.size())});
    layout.tables.push_back(TableId(uint8_t(1 + layout.tables.size() % 200)));
  }
  return layout;
}

/// Plans the read as `downpour train` does. If no model can be chosen, all fields are read.
Result<ReadPlan> plan_of(const DataSet& set) {
  Job job = set.job;
  const bool complete = set.from_job || complete_job(job).has_value();
  ReadPlan plan;
  if (complete) {
    DP_TRY(const auto graph, model::Graph::build(job));
    plan =
        *data::make_read_plan(job, graph->inputs(), graph->output_widths(), job.data.source, {}, 0);
  } else {
    plan.data = set.data();
    if (plan.data.fields.empty()) plan.data.fields = default_fields(plan.data.format);
    plan.layout = layout_of(plan.data.fields);
  }
  plan.data.shuffle = "off";
  plan.batch_size = 1;
  return plan;
}

struct Findings {
  uint64_t limit = 0;
  std::vector<std::string> files;
  uint64_t records = 0, filtered = 0, bytes = 0;
  Rejected bad;
  uint64_t unreadable = 0;  // files that can't be read to the end

  bool wants_more() const { return limit == 0 || bad.first.size() < limit; }
};

/// Buffers for the columns of one record.
class OneRecord {
 public:
  OneRecord(const ReadPlan& plan, const data::RecordParser& parser) : parser_(parser) {
    for (const FloatInput& input : plan.layout.floats)
      floats_.push_back({.width = input.width, .values = std::vector<float>(input.width)});
    keys_.resize(parser.key_shapes().size());
  }
  data::Columns begin() {
    for (size_t i = 0; i < keys_.size(); ++i) {
      const data::KeyShape shape = parser_.key_shapes()[i];
      keys_[i].count = 0;
      keys_[i].has_values = shape.values;
      keys_[i].offsets.assign(shape.bag ? 2 : 0, 0);
      keys_[i].ensure(1);
    }
    return {.record = 0, .floats = &floats_, .keys = &keys_};
  }

 private:
  const data::RecordParser& parser_;
  std::vector<FloatColumn> floats_;
  std::vector<data::KeyBuffer> keys_;
};

/// Checks the records and their checksums, but parses no fields.
Result<void> walk_records(const DataSpec& data, const plan::FileInfo& info,
                          const LookOptions& options, Findings& findings) {
  DP_TRY(const auto cursor, open_cursor(data, info, {}));
  RawRecord record;
  for (;;) {
    DP_TRY(const bool more, cursor->next(record));
    if (!more) return {};
    if (++findings.records % kRecordsPerLook == 0 && options.stopped()) return interrupted_error();
    if (record.fault.reason == nullptr) continue;
    ++findings.bad.count;
    if (findings.wants_more())
      findings.bad.first.push_back(
          data::bad_record_error(record.fault, cursor->locate(record.offset)));
  }
}

Result<void> parse_records(const ReadPlan& plan, uint32_t file, const LookOptions& options,
                           Findings& findings) {
  data::Scratch::Text text;
  const plan::ShardRange all{.file = file, .begin = 0, .end = plan.files[file].bytes};
  DP_TRY(data::ShardRecords records, data::open_records(plan, 0, all, text));
  OneRecord one(plan, *records.parser);
  data::Window window;
  for (;;) {
    DP_TRY(const bool more, records.source->next(window));
    if (!more) return {};
    if (options.stopped()) return interrupted_error();
    options.progress(findings.records, findings.bytes + window.begin_progress, 0);
    for (const data::RecordRef ref : *window.records) {
      ++findings.records;
      data::Fault fault;
      const char* const begin = window.text + ref.begin;
      const uint64_t offset = window.offset_of(ref);
      data::Columns columns = one.begin();
      if (!ref.is_whole()) {
        fault = data::fault_of(ref);
      } else if (records.parser->parse(begin, begin + ref.size, offset, columns, fault) &&
                 records.parser->finish(columns, fault)) {
        continue;
      }
      if (fault.reason == nullptr) {
        ++findings.filtered;
        continue;
      }
      ++findings.bad.count;
      if (findings.wants_more()) {
        findings.bad.first.push_back(data::bad_record_error(fault, records.source->locate(offset)));
      }
    }
  }
}

/// Checks all files of a source. A file that can't be read to the end is reported, and the next one
/// follows.
Result<void> validate_source(ReadPlan& plan, const DataSet& set, const SourceSpec& source,
                             const LookOptions& options, Findings& findings) {
  const bool parsed = !plan.data.fields.empty();
  const DataSpec readable = for_source(readable_data(set), source);
  plan.data = for_source(plan.data, source);
  plan.source = {};  // check all records, even those that the source does not choose
  DP_TRY(plan.files, data::list_files(parsed ? plan.data : readable, source, set.job.base_dir));
  for (uint32_t i = 0; i < plan.files.size(); ++i) {
    auto read = parsed ? parse_records(plan, i, options, findings)
                       : walk_records(readable, plan.files[i], options, findings);
    if (read && data::names_arrays(readable, plan.files[i].path))
      read = data::check_arrays(readable, plan.files[i].path);
    findings.files.push_back(plan.files[i].path);
    findings.bytes += plan.files[i].bytes;
    if (read) continue;
    // Other errors come from the job or from the program, not from the data.
    if (read.error().code != ErrorCode::kBadData && read.error().code != ErrorCode::kIo)
      return read.error();
    ++findings.unreadable;
    findings.bad.first.push_back(read.error());
  }
  return {};
}

void print_json(const Findings& findings, const DataSet& set, std::ostream& out) {
  nlohmann::ordered_json bad = nlohmann::ordered_json::array();
  for (const Error& error : findings.bad.first)
    bad.push_back({{"where", error.where}, {"what", error.what}});
  const nlohmann::ordered_json json = {{"format", format_name(set.data().format)},
                                       {"files", findings.files.size()},
                                       {"records", findings.records},
                                       {"good", findings.records - findings.bad.count},
                                       {"bad", findings.bad.count},
                                       {"filtered", findings.filtered},
                                       {"unreadable_files", findings.unreadable},
                                       {"first", std::move(bad)}};
  out << json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) << "\n";
}

void print_text(const Findings& findings, std::ostream& out) {
  for (const Error& error : findings.bad.first)
    out << printable(error.where) << ": " << printable(error.what) << "\n";
  const uint64_t told = findings.bad.first.size() - findings.unreadable;
  if (findings.bad.count > told)
    out << "... and " << grouped(findings.bad.count - told)
        << " more bad records (--limit 0 shows all)\n";
  out << grouped(findings.records) << " records in " << findings.files.size()
      << (findings.files.size() == 1 ? " file, " : " files, ") << human_bytes(findings.bytes)
      << ": " << grouped(findings.records - findings.bad.count) << " good, "
      << grouped(findings.bad.count) << " bad";
  if (findings.filtered > 0)
    out << " (" << grouped(findings.filtered) << " of the good records are filtered out)";
  if (findings.unreadable > 0)
    out << "; " << findings.unreadable << (findings.unreadable == 1 ? " file" : " files")
        << " could not be read to the end";
  out << "\n";
}

}  // namespace

Result<Rejected> validate(const DataSet& set, uint64_t limit, const LookOptions& options,
                          std::ostream& out) {
  DP_TRY(ReadPlan plan, plan_of(set));
  Findings findings{.limit = limit};
  DP_TRY_VOID(data::check_filter(plan.data));
  DP_TRY_VOID(validate_source(plan, set, set.data().source, options, findings));
  if (!set.job.eval.source.empty()) {
    DP_TRY_VOID(validate_source(plan, set, set.job.eval.source, options, findings)
                    .context("the evaluation's source"));
  }
  options.json ? print_json(findings, set, out) : print_text(findings, out);
  findings.bad.count += findings.unreadable;
  return findings.bad;
}

}  // namespace downpour::tools
