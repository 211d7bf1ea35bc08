#include "shared/data/dataset.h"

#include <algorithm>
#include <bit>
#include <map>
#include <mutex>
#include <tuple>

#include "shared/base/hash.h"
#include "shared/base/names.h"
#include "shared/data/arrays.h"
#include "shared/data/batch_reader.h"
#include "shared/data/byte_source.h"
#include "shared/data/chosen_windows.h"
#include "shared/data/line_windows.h"
#include "shared/data/mnist.h"
#include "shared/data/parser.h"
#include "shared/data/program.h"
#include "shared/data/record_cache.h"
#include "shared/data/record_program.h"
#include "shared/data/scratch.h"
#include "shared/data/tfrecord.h"
#include "shared/plan/plan_hash.h"

namespace downpour::data {
namespace {

/// Must be incremented by every change after which the same plan names other records or other
/// values.
constexpr uint64_t kReaderVersion = 2;
constexpr uint64_t kSampleRecords = 1000;  // sample size of a mean

/// Splits `line`, the first line after the skipped ones, into cells.
Result<std::vector<std::string>> first_cells(const DataSpec& data, const std::string& line,
                                             const std::string& path) {
  DP_TRY(const char delimiter, delimiter_of(data));
  std::vector<std::string_view> cells(size_t(std::count(line.begin(), line.end(), delimiter)) + 1);
  size_t count = 0;
  std::string store;
  if (!split_line(line, delimiter, data.format == DataFormat::kCsv, cells, count, store)) {
    return Error{ErrorCode::kBadData,
                 str("bad ", data.header ? "header" : "first line", ": \"", shown(line), "\""),
                 str(path, ":", data.skip_lines + 1), "close its quotes"};
  }
  std::vector<std::string> texts;
  for (size_t i = 0; i < count; ++i) texts.emplace_back(trimmed(cells[i]));
  return texts;
}

/// Caches preambles of files, because each shard opens its file again. The key contains the
/// fingerprint, so an entry is valid as long as the file is unchanged.
class KnownPreambles {
 public:
  Result<Preamble> get(const DataSpec& data, const plan::FileInfo& info) {
    const Key key{info.path,   info.fingerprint,     data.skip_lines,
                  data.header, data.quoted_newlines, data.delimiter};
    {
      const std::lock_guard lock(mutex_);
      if (const auto found = known_.find(key); found != known_.end()) return found->second;
    }
    DP_TRY(Preamble preamble, read_preamble(info.path, data, data.header));
    constexpr size_t kBytesMax = size_t{1} << 16, kFilesMax = 1 << 10;
    const std::lock_guard lock(mutex_);
    if (known_.size() == kFilesMax) known_.clear();
    if (preamble.header.size() <= kBytesMax) known_.emplace(key, preamble);
    return preamble;
  }

 private:
  using Key = std::tuple<std::string, uint64_t, uint32_t, bool, bool, std::string>;
  std::mutex mutex_;
  std::map<Key, Preamble> known_;
};
KnownPreambles known_preambles;

/// Returns the names in a header. A column without a name gets one by its position.
Result<std::vector<std::string>> header_names(const DataSpec& data, const std::string& header,
                                              const std::string& path) {
  DP_TRY(std::vector<std::string> names, first_cells(data, header, path));
  for (size_t i = 0; i < names.size(); ++i)
    if (names[i].empty()) names[i] = unnamed_column(i);
  const std::string* const repeated = first_repeated(names);
  if (repeated == nullptr) return names;
  return Error{ErrorCode::kBadData, str("the header has the column `", shown(*repeated), "` twice"),
               str(path, ":", data.skip_lines + 1),
               "each name once; or list names in data.columns, with data.header = false and one "
               "more of data.skip_lines"};
}

Result<std::vector<std::string>> declared_columns(const DataSpec& data) {
  if (!data.columns.empty()) return data.columns;
  if (std::vector<std::string> names = default_columns(data.format); !names.empty()) return names;
  return Error{
      ErrorCode::kConfig, "the names of the columns are not known", "data.columns",
      "list them in data.columns, or set data.header = true if the file's first line does"};
}

/// Returns the columns of a file with that preamble.
Result<std::vector<std::string>> columns_behind(const DataSpec& data, const Preamble& preamble,
                                                const std::string& path) {
  if (!data.header) return declared_columns(data);
  if (!trimmed(preamble.header).empty()) return header_names(data, preamble.header, path);
  constexpr uint64_t kMarkBytes = 3;  // of the byte order mark
  const bool nothing =
      data.skip_lines == 0 && (preamble.bytes == 0 || preamble.bytes == kMarkBytes);
  if (nothing && !data.columns.empty()) return data.columns;  // the file has no records
  return Error{
      ErrorCode::kBadData, "the header names no column", str(path, ":", data.skip_lines + 1),
      "its first line names them; or list names in data.columns, with data.header = false"};
}

/// Returns `names` without the targets' columns if the first record of a file without header has
/// exactly that many cells fewer.
Result<std::vector<std::string>> present_columns(const ReadPlan& plan,
                                                 std::vector<std::string> names,
                                                 const std::string& path) {
  std::vector<std::string> others = names;
  for (const TargetRule& rule : plan.targets) {
    DP_TRY(const FieldSpec field, resolve_field(plan, rule.field));
    std::erase(others, field.column.empty() ? field.name : field.column);
  }
  DP_TRY(const Preamble first, read_preamble(path, plan.data, /*header=*/true));
  DP_TRY(const std::vector<std::string> cells, first_cells(plan.data, first.header, path));
  return cells.size() == others.size() ? std::move(others) : std::move(names);
}

/// Returns the columns of one of the plan's files. For the output of a program, returns the
/// declared ones.
Result<std::vector<std::string>> columns_for(const ReadPlan& plan, const plan::FileInfo& info) {
  const DataSpec& data = plan.data;
  if (is_program(info) || !data.program.empty()) return declared_columns(data);
  if (!data.header && plan.targets_optional) {
    DP_TRY(std::vector<std::string> names, declared_columns(data));
    return present_columns(plan, std::move(names), info.path);
  }
  DP_TRY(const Preamble preamble, known_preambles.get(data, info));
  return columns_behind(data, preamble, info.path);
}

/// Hashes options of ops that were added later. They are hashed only if they are set, so that older
/// plans keep their hash.
void hash_options(plan::PlanHash& hash, const TransformSpec& op) {
  const TransformSpec plain;
  if (op.fallback) hash.add("op_default", *op.fallback);
  for (const std::string& word : op.words) hash.add("word", word);
  if (op.op == TransformOp::kVocabulary)
    hash.add("unknown", uint64_t(op.unknown)).add("vocabulary", op.fingerprint);
  for (const double boundary : op.boundaries)
    hash.add("boundary", std::bit_cast<uint64_t>(boundary));
  if (!op.separators.empty()) hash.add("separators", op.separators);
  if (op.lower) hash.add("lower", 1);
  if (op.ngrams != plain.ngrams) hash.add("ngrams", op.ngrams);
  if (op.length != 0) hash.add("length", op.length).add("keep", op.keep);
  if (op.value != 0) hash.add("value", std::bit_cast<uint64_t>(op.value));
  if (op.how != plain.how) hash.add("how", op.how);
  for (const std::string& field : op.fields) hash.add("of", field);
  if (op.rate != 0) hash.add("rate", std::bit_cast<uint64_t>(op.rate));
  if (op.stddev != 0) hash.add("stddev", std::bit_cast<uint64_t>(op.stddev));
}

void hash_fields(plan::PlanHash& hash, const std::vector<FieldSpec>& fields) {
  for (const FieldSpec& field : fields) {
    hash.add("field", field.name).add("column", field.column).add("type", uint64_t(field.type));
    if (!field.feature.empty()) hash.add("feature", field.feature);
    if (!field.path.empty()) hash.add("path", field.path);
    if (!field.encoding.empty()) hash.add("encoding", field.encoding);
    for (const int64_t d : field.shape) hash.add("shape", uint64_t(d));
    if (field.fallback) hash.add("default", *field.fallback);
    for (const std::string& text : field.positive) hash.add("positive", text);
    for (const TransformSpec& op : field.transform) {
      hash.add("op", uint64_t(op.op)).add("buckets", op.buckets);
      if (op.min) hash.add("min", std::bit_cast<uint64_t>(*op.min));
      if (op.max) hash.add("max", std::bit_cast<uint64_t>(*op.max));
      hash.add("mean", std::bit_cast<uint64_t>(op.mean.value_or(0)))
          .add("scale", std::bit_cast<uint64_t>(op.scale.value_or(1)));
      hash_options(hash, op);
    }
  }
}

}  // namespace

std::shared_ptr<ScratchPool> make_scratch_pool() { return std::make_shared<ScratchPool>(); }

std::vector<FieldSpec> default_fields(DataFormat format) {
  const FieldSpec label{.name = "label", .type = FieldType::kFloat32};
  switch (format) {
    case DataFormat::kLibsvm:
    case DataFormat::kLibffm:
      return {label, {.name = "features", .type = FieldType::kInt64, .shape = {-1}}};
    case DataFormat::kMnist:
      return {{.name = "image", .type = FieldType::kFloat32, .shape = {784}},
              {.name = "label", .type = FieldType::kInt64}};
    case DataFormat::kCriteo: {
      std::vector<FieldSpec> fields = {label};
      for (int i = 1; i <= 13; ++i) {
        fields.push_back(
            {.name = str("I", i),
             .fallback = "0",
             .transform = {{.op = TransformOp::kClip, .min = 0.0}, {.op = TransformOp::kLog1p}}});
      }
      for (int i = 1; i <= 26; ++i) {
        fields.push_back({.name = str("C", i),
                          .type = FieldType::kString,
                          .fallback = "",
                          .transform = {{.op = TransformOp::kHash, .buckets = uint64_t{1} << 20}}});
      }
      return fields;
    }
    case DataFormat::kAuto:
    case DataFormat::kCsv:
    case DataFormat::kTsv:
    case DataFormat::kTfrecord:
    case DataFormat::kNpy:
    case DataFormat::kNpz:
    case DataFormat::kJsonl:
      return {};
  }
  return {};
}

Result<std::vector<std::string>> columns_of(const DataSpec& data, const std::string& path) {
  if (!data.header) return declared_columns(data);
  DP_TRY(const Preamble preamble, read_preamble(path, data, /*header=*/true));
  return columns_behind(data, preamble, path);
}

std::vector<std::string> default_columns(DataFormat format) {
  std::vector<std::string> names;
  if (format != DataFormat::kCriteo) return names;
  for (const FieldSpec& field : default_fields(format)) names.push_back(field.name);
  return names;
}

Result<FieldSpec> resolve_field(const ReadPlan& plan, const std::string& name) {
  const auto found = [&](FieldSpec field) {
    if (plan.targets_optional && find_target(plan, name) != nullptr && !field.fallback)
      field.fallback = "0";
    return field;
  };
  if (const FieldSpec* field = plan.data.find_field(name)) return found(*field);
  std::string there;
  for (const FieldSpec& field : plan.data.fields) there += (there.empty() ? "" : ", ") + field.name;
  for (FieldSpec& field : default_fields(plan.data.format)) {
    if (field.name == name) return found(std::move(field));
    there += (there.empty() ? "" : ", ") + field.name;
  }
  return Error{ErrorCode::kConfig, str("field ", name, " is not declared"),
               str("data.fields.", name),
               there.empty() ? "declare it in data.fields" : str("there are: ", shown(there))};
}

const TargetRule* find_target(const ReadPlan& plan, const std::string& name) {
  for (const TargetRule& rule : plan.targets)
    if (rule.field == name) return &rule;
  return nullptr;
}

uint64_t plan_hash(const ReadPlan& plan, const std::vector<plan::ShardRange>& shards) {
  plan::PlanHash hash;
  hash.add("reader", kReaderVersion).add("seed", plan.seed).add("batch_size", plan.batch_size);
  hash.add("drop_remainder", plan.drop_remainder)
      .add("holdout", std::bit_cast<uint64_t>(plan.holdout));
  for (const plan::FileInfo& file : plan.files) {
    // Only the name counts, not the folder: a data set may be mounted at another place on another
    // machine.
    const size_t slash = file.path.rfind('/');
    hash.add("file",
             std::string_view(file.path).substr(slash == std::string::npos ? 0 : slash + 1));
    hash.add("bytes", file.bytes).add("fingerprint", file.fingerprint);
  }
  for (const plan::ShardRange& range : shards) {
    hash.add("range", range.file).add("begin", range.begin).add("end", range.end);
    if (range.stream > 0) hash.add("stream", range.stream);
    if (range.modulus > 1) hash.add("modulus", range.modulus);
    if (range.records_before > 0) hash.add("records_before", range.records_before);
  }
  if (!plan.source.takes_all()) {
    hash.add("skip", plan.source.skip).add("take", plan.source.take);
    hash.add("shard_count", plan.source.shard_count).add("shard_index", plan.source.shard_index);
  }
  for (const SourcePart& split : plan.source.parts) {
    if (split.weight > 0)
      hash.add("weight", std::bit_cast<uint64_t>(split.weight))
          .add("files", split.files)
          .add("record_bytes", split.record_bytes);
  }
  const DataSpec& data = plan.data;
  hash.add("format", uint64_t(data.format))
      .add("header", data.header)
      .add("skip_lines", data.skip_lines);
  if (!data.record.empty()) hash.add("record", data.record);
  if (data.quoted_newlines) hash.add("quoted_newlines", true);
  if (data.interleave.cycle > 1)
    hash.add("cycle", data.interleave.cycle).add("block", data.interleave.block);
  if (plan.batches_max > 0) hash.add("batches_max", plan.batches_max);
  hash.add("delimiter", data.delimiter).add("trim", data.trim).add("shuffle", data.shuffle);
  for (const std::string& text : data.columns) hash.add("column", text);
  for (const std::string& text : data.missing) hash.add("missing", text);
  hash_fields(hash, data.fields);
  if (!data.filter.empty()) hash.add("filter", data.filter);
  for (const std::string& word : data.program) hash.add("program", word);
  if (!data.program.empty() && chooses_by_number(plan.source, stream_spec(data)))
    hash.add("program_reads", "chosen");  // separates these plans from older ones, whose program
                                          // read all records
  // bad_records is not hashed. A run that failed at a bad record can be resumed with "skip",
  // because no batch from that record on was applied. The layout is hashed, because it decides
  // which fields are read, and so which records are bad.
  for (const FloatInput& input : plan.layout.floats)
    hash.add("float", input.field).add("width", input.width);
  for (const BagInput& input : plan.layout.bags)
    hash.add("bag", input.field).add("table", input.table_index);
  for (const TargetRule& rule : plan.targets)
    hash.add("target", rule.field).add("kind", uint64_t(rule.kind)).add("classes", rule.classes);
  return hash.value();
}

Result<void> check_filter(const DataSpec& data) {
  DP_TRY(const std::unique_ptr<RecordFilter> filter, RecordFilter::make(data));
  if (filter != nullptr && data.format == DataFormat::kMnist) {
    return Error{ErrorCode::kConfig, "images can't be filtered", "data.filter",
                 "remove it, or write the data set as CSV"};
  }
  return {};
}

Result<std::unique_ptr<WindowSource>> open_windows(const DataSpec& data, const plan::FileInfo& info,
                                                   const plan::ShardRange& range,
                                                   size_t window_bytes, Buffer& buffer,
                                                   std::vector<RecordRef>& records) {
  if (data.format == DataFormat::kMnist) return open_idx(info, window_bytes, buffer, records);
  if (data.format == DataFormat::kTfrecord)
    return open_tfrecord(info, range, window_bytes, buffer, records);
  DP_CHECK(data.format != DataFormat::kNpy && data.format != DataFormat::kNpz);
  DP_TRY(const Preamble preamble, known_preambles.get(data, info));
  DP_TRY(const LineRules rules, rules_of(data));
  return open_lines(info, range, preamble.bytes, rules, window_bytes, buffer, records);
}

namespace {

/// Returns the size of the window of text or pixels for one range of a shard.
size_t window_bytes_of(const DataSpec& data, size_t ranges) {
  constexpr size_t kLeast = size_t{64} << 10;
  const size_t bytes = data.shuffle == "off" ? kPlainWindowBytes : kShuffleWindowBytes;
  return std::max(bytes / ranges, kLeast);
}

bool reads_arrays(const DataSpec& data) {
  return data.format == DataFormat::kNpy || data.format == DataFormat::kNpz;
}

/// Opens all records of a range as they are in the files. For arrays, also returns the parser of
/// the rows.
Result<ShardRecords> open_whole_range(const ReadPlan& plan, uint32_t epoch,
                                      const plan::ShardRange& range, size_t window_bytes,
                                      Scratch::Text& text) {
  const plan::FileInfo& info = plan.files[range.file];
  if (is_program(info))
    return open_program(plan, epoch, range, window_bytes, text.bytes, text.records);
  if (reads_arrays(plan.data))
    return open_array_rows(plan, info, range, window_bytes, text.bytes, text.records);
  ShardRecords out;
  if (info.is_streamed()) {
    DP_TRY(out.source, open_piece(plan, epoch, range, text.records));
  } else {
    DP_TRY(out.source,
           open_windows(plan.data, info, range, window_bytes, text.bytes, text.records));
  }
  return out;
}

}  // namespace

Result<ShardRecords> open_records(const ReadPlan& plan, uint32_t epoch,
                                  const plan::ShardRange& range, Scratch::Text& text,
                                  size_t ranges) {
  DP_CHECK(range.file < plan.files.size(), range.file, plan.files.size());
  const plan::FileInfo& info = plan.files[range.file];
  const DataSpec& data = plan.data;
  if (data.format == DataFormat::kAuto) {
    return Error{ErrorCode::kConfig, "the data's format is not decided", "data.format",
                 "say data.format = \"csv\", or whatever it is"};
  }
  const size_t window_bytes = window_bytes_of(data, ranges);
  const bool transformed = !data.program.empty();
  std::unique_ptr<RecordProgram> program;
  if (transformed) {
    const size_t bytes = data.shuffle == "off" ? kProgramWindowBytes : window_bytes;
    DP_TRY(const LineRules rules, rules_of(data));
    program = std::make_unique<RecordProgram>(transform_call_of(plan, epoch, range), plan.programs,
                                              data.format, rules.quoting, !plan.targets_optional,
                                              bytes, text);
  }
  Scratch::Text& read = transformed ? program->input_text() : text;
  const size_t read_bytes = transformed ? kPlainWindowBytes : window_bytes;
  DP_TRY(ShardRecords out, open_whole_range(plan, epoch, range, read_bytes, read));
  if (!info.is_open())  // an open stream chooses its records before it is cut into pieces
    out.source = choose_by_number(plan.source, range, !info.is_cut(), std::move(out.source));
  if (out.parser != nullptr) return out;
  if (transformed) {
    program->set_input(std::move(out.source));
    out.source = std::move(program);
  }
  if (data.format == DataFormat::kMnist) {
    DP_TRY(out.parser, make_idx_parser(plan, info.path));
  } else if (data.format == DataFormat::kTfrecord) {
    DP_TRY(out.parser,
           data.record == "tensor" ? make_tensor_parser(plan) : make_example_parser(plan));
  } else if (data.format == DataFormat::kLibsvm || data.format == DataFormat::kLibffm) {
    DP_TRY(out.parser, make_libsvm_parser(plan));
  } else if (data.format == DataFormat::kJsonl) {
    DP_TRY(out.parser, make_json_parser(plan));
  } else {
    DP_TRY(const std::vector<std::string> columns, columns_for(plan, info));
    DP_TRY(out.parser, make_csv_parser(plan, columns, info.path));
  }
  return out;
}

Result<std::unique_ptr<ShardReader>> open_shard(std::shared_ptr<const ReadPlan> plan, Split split,
                                                ShardId shard, std::vector<plan::ShardRange> ranges,
                                                uint32_t first_batch,
                                                std::vector<uint32_t> quarantined_batches) {
  DP_TRY(std::unique_ptr<BatchReader> reader,
         open_batch_reader(std::move(plan), split, shard, std::move(ranges), first_batch,
                           std::move(quarantined_batches)));
  return std::unique_ptr<ShardReader>(std::move(reader));
}

Result<std::unique_ptr<ShardReader>> open_shard(std::shared_ptr<const ReadPlan> plan, Split split,
                                                ShardId shard, const plan::ShardRange& range,
                                                uint32_t first_batch,
                                                std::vector<uint32_t> quarantined_batches) {
  return open_shard(std::move(plan), split, shard, std::vector{range}, first_batch,
                    std::move(quarantined_batches));
}

Result<std::unique_ptr<BatchReader>> open_batch_reader(std::shared_ptr<const ReadPlan> plan,
                                                       Split split, ShardId shard,
                                                       std::vector<plan::ShardRange> ranges,
                                                       uint32_t first_batch,
                                                       std::vector<uint32_t> quarantined_batches) {
  std::unique_ptr<Scratch> scratch = plan->scratch->take();
  if (scratch->texts.size() < ranges.size()) scratch->texts.resize(ranges.size());
  std::vector<OpenRange> open;
  for (const plan::ShardRange& range : ranges) {
    DP_TRY(ShardRecords records,
           open_records(*plan, shard.epoch, range, scratch->texts[open.size()], ranges.size()));
    // Records of quarantined batches are not parsed, so the range would be incomplete. Parsing
    // arrays is as fast as a cache of them.
    const bool cached = plan->cache != nullptr && quarantined_batches.empty() &&
                        !is_program(plan->files[range.file]) && !reads_arrays(plan->data);
    if (cached) {
      const RecordCache::Key key{.range = range,
                                 .window_bytes = window_bytes_of(plan->data, ranges.size()),
                                 .held_out = split == Split::kHeldOut};
      records = plan->cache->capture_or_replay(key, std::move(records),
                                               scratch->texts[open.size()].records);
    }
    open.push_back({range, std::move(records.source), std::move(records.parser), records.kept});
  }
  return std::make_unique<BatchReader>(std::move(plan), split, shard, std::move(open),
                                       std::move(scratch), first_batch,
                                       std::move(quarantined_batches));
}

Result<void> count_pieces(const ReadPlan& plan, uint64_t shard_bytes,
                          std::vector<plan::FileInfo>& files) {
  uint64_t records = 0;
  const uint64_t wanted = chosen_end(plan.source);
  Scratch::Text text;
  ReadPlan as_read = plan;
  as_read.source = {};           // no record is left out
  as_read.data.program.clear();  // it writes one record per record that it reads
  for (const plan::ShardRange& range : plan::cut_shards(plan.files, shard_bytes)) {
    const uint64_t before = records;
    if (before < wanted) {
      DP_TRY(const ShardRecords reading, open_records(as_read, 0, range, text));
      Window window;
      while (records < wanted) {
        DP_TRY(const bool more, reading.source->next(window));
        if (!more) break;
        records += window.records->size();
        if (plan.programs->stopped())
          return Error{ErrorCode::kUnavailable, "the reading was stopped", files[range.file].path};
      }
    }
    std::vector<uint64_t>& all_before = files[range.file].records_before;
    const uint64_t number = number_of_piece(plan.source, before, records);
    if (number == plan::kNotChosen && before >= wanted && !all_before.empty() &&
        all_before.back() == plan::kNotChosen)
      continue;
    all_before.push_back(number);
  }
  return {};
}

Result<uint64_t> mean_record_bytes(const DataSpec& data, const std::string& path) {
  if (names_arrays(data, path)) {
    DP_TRY(const std::vector<SourceArray> arrays, open_arrays(data, path));
    uint64_t bytes = 0;
    for (const SourceArray& array : arrays) bytes += array.array.row_bytes();
    return bytes;
  }
  DP_TRY(File file, File::open(path));
  const uint64_t file_bytes = file.bytes();
  DP_TRY(const bool compressed, file.is_compressed());
  DP_TRY(std::unique_ptr<ByteSource> source, open_bytes(std::move(file), 0));
  if (data.format == DataFormat::kMnist) {
    DP_TRY(const IdxImages images, read_idx_header(*source, path));
    return std::max<uint64_t>(file_bytes / std::max<uint32_t>(images.count, 1), 1);
  }
  if (data.format == DataFormat::kTfrecord) {
    FrameScanner scanner(std::move(source), path);
    uint64_t records = 0, at = 0;
    while (records <= kSampleRecords) {
      DP_TRY(const bool more, scanner.next(at));
      if (!more) break;
      ++records;
    }
    if (compressed) at = scanner.consumed();
    return std::max<uint64_t>(records > kSampleRecords
                                  ? at / kSampleRecords
                                  : file_bytes / std::max<uint64_t>(records, 1),
                              1);
  }
  std::string text(256 * 1024, '\0');
  DP_TRY(const size_t n, source->read(text.data(), text.size()));
  // For a compressed file, its compressed bytes count.
  const uint64_t used =
      n < text.size() ? file_bytes : std::min<uint64_t>(source->consumed(), file_bytes);
  const auto mean = [&](uint64_t bytes, uint64_t records) {
    return std::max(uint64_t(__uint128_t{used} * bytes / (std::max<uint64_t>(n, 1) * records)),
                    uint64_t{1});
  };
  if (data.boundaries_need_scan()) {
    DP_TRY(const LineRules rules, rules_of(data));
    DP_TRY(const Preamble preamble, read_preamble(path, data, data.header));
    const std::string_view rest =
        std::string_view(text.data(), n).substr(std::min<uint64_t>(preamble.bytes, n));
    const auto records = records_in(rest, rules, n < text.size());
    if (!records.empty()) {
      const std::string_view last = records.back();
      return mean(uint64_t(last.data() + last.size() + 1 - rest.data()), records.size());
    }
  }
  const auto lines = uint64_t(std::count(text.begin(), text.begin() + ptrdiff_t(n), '\n'));
  return mean(std::max<uint64_t>(n, 1), std::max<uint64_t>(lines, 1));
}

}  // namespace downpour::data
