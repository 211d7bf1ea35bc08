#include "shared/data/reading/batch_columns.h"

#include <algorithm>
#include <utility>

#include "shared/base/check.h"
#include "shared/data/formats/format.h"
#include "shared/data/records/delimited.h"

namespace downpour::data {
namespace {

constexpr size_t kBatchKeysMax = size_t{1} << 26;  // of one field; bounds the memory of a batch

}  // namespace

bool too_many_keys(const std::vector<KeyBuffer>& buffers) {
  return std::any_of(buffers.begin(), buffers.end(),
                     [](const KeyBuffer& b) { return b.count > kBatchKeysMax; });
}

Error bad_record_error(const Fault& fault, std::string where) {
  std::string what = "bad record: ";
  if (fault.field != nullptr) what += str("field ", *fault.field, " ");
  const std::string_view text = fault.made.empty() ? fault.text : fault.made;
  if (!text.empty()) what += str("\"", shown(text), "\" ");
  if (fault.field == nullptr && text.empty()) what += "the record ";
  what += fault.reason;
  return Error{ErrorCode::kBadData, what, std::move(where),
               fault.hint == nullptr ? "" : fault.hint};
}

void begin_columns(const InputLayout& layout, const RecordParser& parser, uint32_t records_max,
                   Scratch& scratch, Batch& batch) {
  scratch.indexes.resize(layout.tables.size());
  scratch.keys.resize(parser.key_shapes().size());
  batch.records = 0;
  batch.records_hash = 0;
  batch.first_record = UINT64_MAX;
  batch.last_record = 0;
  batch.counts = {};
  batch.quarantined = false;
  batch.floats.resize(layout.floats.size());
  for (size_t i = 0; i < layout.floats.size(); ++i) {
    batch.floats[i].width = layout.floats[i].width;
    batch.floats[i].values.resize(size_t(records_max) * layout.floats[i].width);
  }
  for (size_t i = 0; i < scratch.keys.size(); ++i) {
    KeyBuffer& buffer = scratch.keys[i];
    const KeyShape shape = parser.key_shapes()[i];
    buffer.count = 0;
    buffer.all_one = true;
    buffer.has_values = shape.values;
    buffer.offsets.resize(shape.bag ? records_max + 1 : 0);
    if (shape.bag) buffer.offsets[0] = 0;
    if (shape.values && buffer.values.size() < buffer.keys.size())
      buffer.values.resize(buffer.keys.size());
    buffer.ensure(records_max);
  }
}

void grow_columns(uint32_t records_max, Scratch& scratch, Batch& batch) {
  for (FloatColumn& column : batch.floats) column.values.resize(size_t(records_max) * column.width);
  for (KeyBuffer& buffer : scratch.keys) {
    if (!buffer.offsets.empty()) buffer.offsets.resize(size_t{records_max} + 1);
    buffer.ensure(records_max - batch.records);
  }
}

void finish_columns(const InputLayout& layout, const RecordParser& parser, Scratch& scratch,
                    Batch& batch) {
  parser.finish_batch(batch.floats, scratch.keys, batch.records);
  for (FloatColumn& column : batch.floats)
    column.values.resize(size_t(batch.records) * column.width);
  batch.tables.resize(layout.tables.size());
  for (size_t t = 0; t < layout.tables.size(); ++t) {
    batch.tables[t].table = layout.tables[t];
    batch.tables[t].keys.clear();
    scratch.indexes[t].begin_batch();
  }
  batch.bags.resize(layout.bags.size());
  for (size_t i = 0; i < layout.bags.size(); ++i) {
    const KeyBuffer& buffer = scratch.keys[parser.key_of_bag()[i]];
    BagColumn& bag = batch.bags[i];
    bag.table_index = layout.bags[i].table_index;
    bag.keys.resize(buffer.count);
    scratch.indexes[bag.table_index].add({buffer.keys.data(), buffer.count}, bag.keys.data(),
                                         batch.tables[bag.table_index].keys, layout.bags[i].salt);
    bag.offsets.assign(buffer.offsets.begin(),
                       buffer.offsets.begin() + (buffer.offsets.empty() ? 0 : batch.records + 1));
    bag.values.clear();
    if (buffer.has_values && !buffer.all_one)
      bag.values.assign(buffer.values.begin(), buffer.values.begin() + ptrdiff_t(buffer.count));
  }
}

Result<std::unique_ptr<LineBatches>> LineBatches::make(std::shared_ptr<const ReadPlan> plan,
                                                       const JsonRules& rules) {
  DP_CHECK(is_lines(plan->data.format));
  const bool json = plan->data.format == DataFormat::kJsonl;
  // No file has the lines, so a table has the columns that the job declares.
  const plan::FileInfo none{.path = std::string(plan::FileInfo::kProgramMark)};
  DP_TRY(std::unique_ptr<RecordParser> parser,
         json ? make_json_parser(*plan, rules)
              : format_of(plan->data.format).make_parser(*plan, none));
  return std::unique_ptr<LineBatches>(new LineBatches(std::move(plan), std::move(parser)));
}

Result<void> LineBatches::parse(std::span<const std::string_view> lines, Batch& batch) {
  begin_columns(plan_->layout, *parser_, uint32_t(lines.size()), scratch_, batch);
  Columns columns{.floats = &batch.floats, .keys = &scratch_.keys};
  for (size_t row = 0; row < lines.size(); ++row) {
    const std::string_view line = lines[row];
    columns.record = batch.records;
    Fault fault;
    if (!parser_->parse(line.data(), line.data() + line.size(), row, columns, fault) ||
        !parser_->finish(columns, fault)) {
      if (fault.reason == nullptr) continue;
      return bad_record_error(fault, str("row ", row));
    }
    ++batch.records;
    if (too_many_keys(scratch_.keys)) {
      return Error{ErrorCode::kBadData, "the rows have more than 67 million keys", str("row ", row),
                   "send fewer rows at once"};
    }
  }
  finish_columns(plan_->layout, *parser_, scratch_, batch);
  return {};
}

}  // namespace downpour::data
