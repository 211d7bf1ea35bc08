// `downpour data head`: shows the first records of a data set.
#include <algorithm>
#include <cmath>
#include <cstdio>

#include "shared/base/human.h"
#include "shared/data/formats/json/json_text.h"
#include "shared/data/reading/batch_reader.h"
#include "shared/job/formats.h"
#include "tools/data/look.h"
#include "tools/data/record_walk.h"

namespace downpour::tools {
namespace {

constexpr size_t kCellWidth = 24;
constexpr size_t kBadShown = 20;

/// Escapes control bytes and invalid UTF-8 as \x1b, so that the text can't control a terminal.
std::string cell_text(std::string_view text, size_t width) {
  std::string out;
  const char* const end = text.data() + text.size();
  size_t shown = 0;
  for (const char* p = text.data(); p < end; ++shown) {
    if (shown + 1 >= width && text_width({p, size_t(end - p)}) > 1) return out + "…";
    const size_t n = data::utf8_bytes(p, end);
    if (n > 1 || (n == 1 && uint8_t(*p) >= 0x20 && *p != 0x7f)) {
      out.append(p, n);
      p += n;
    } else {
      char escaped[8];
      std::snprintf(escaped, sizeof escaped, "\\x%02x", unsigned(uint8_t(*p++)));
      out += escaped;
      shown += 3;
    }
  }
  return out;
}

std::string one_text(const data::FieldValues& values, size_t i, size_t width) {
  std::string out;
  switch (values.kind) {
    case data::ValueKind::kInteger:
      data::append_number(out, values.integers[i]);
      break;
    case data::ValueKind::kReal:
      data::append_number(out, values.reals[i], values.single);
      break;
    case data::ValueKind::kText:
      return cell_text(values.texts[i], width);
    case data::ValueKind::kPairs:
      if (!values.groups.empty()) out = str(values.groups[i], ":");
      data::append_number(out, values.integers[i]);
      out += ':';
      data::append_number(out, values.reals[i], true);
      break;
    case data::ValueKind::kNone:
      break;
  }
  return out;
}

/// Returns a table of the values. If it is wider than `columns`, the values of each record are
/// listed one per line instead.
std::string head_text(const std::vector<data::ValueField>& fields,
                      const std::vector<std::vector<data::FieldValues>>& records,
                      const std::vector<std::string>& names, size_t columns) {
  std::vector<std::vector<std::string>> rows(1);
  size_t left = 0;
  for (const data::ValueField& field : fields) rows[0].push_back(cell_text(field.name, kCellWidth));
  for (const auto& record : records) {
    auto& row = rows.emplace_back();
    for (size_t i = 0; i < fields.size(); ++i) {
      row.push_back(i < record.size() ? value_text(record[i], kCellWidth) : "-");
    }
  }
  // The last column of texts or lists, and all columns before it, are aligned to the left.
  for (size_t i = 0; i < fields.size(); ++i)
    if (fields[i].kind == data::ValueKind::kText || !fields[i].shape.empty()) left = i + 1;
  std::string table = table_text(rows, left);
  size_t widest = 0;
  for (size_t at = 0; at < table.size();) {
    const size_t end = table.find('\n', at);
    widest = std::max(widest, text_width(std::string_view(table).substr(at, end - at)));
    at = end + 1;
  }
  if (widest <= columns) return table;
  std::string out;
  size_t name_width = 0;
  for (const std::string& name : rows[0]) name_width = std::max(name_width, text_width(name));
  const size_t room = std::max<size_t>(columns - std::min(columns, name_width + 6), kCellWidth);
  for (size_t r = 0; r < records.size(); ++r) {
    std::vector<std::vector<std::string>> lines;
    for (size_t i = 0; i < fields.size(); ++i) {
      lines.push_back({rows[0][i], i < records[r].size() ? value_text(records[r][i], room) : "-"});
    }
    out += names[r] + "\n" + table_text(lines, 2);
  }
  return out;
}

std::string json_line(const plan::FileInfo& file, const RawRecord& record,
                      const std::vector<data::ValueField>& fields,
                      const std::vector<data::FieldValues>& values) {
  std::string out = "{\"file\": ";
  data::append_json_text(out, file.path);
  out += str(", \"offset\": ", record.offset, ", \"fields\": {");
  for (size_t i = 0; i < fields.size(); ++i) {
    if (i > 0) out += ", ";
    data::append_json_text(out, fields[i].name);
    out += ": ";
    data::append_json_value(out, values[i], fields[i].shape.empty() && !values[i].list);
  }
  return out + "}}\n";
}

}  // namespace

Error interrupted_error() {
  return Error{ErrorCode::kInterrupted, "stopped by a signal", "",
               "run the command again to start over"};
}

std::string value_text(const data::FieldValues& values, size_t width) {
  if (values.missing()) return values.list ? "[]" : "-";
  if (values.count() == 1 && !values.list) return one_text(values, 0, width);
  const bool pairs = values.kind == data::ValueKind::kPairs;
  std::string out = pairs ? "" : "[";
  for (size_t i = 0; i < values.count(); ++i) {
    const std::string next = one_text(values, i, width);
    if (i > 0 && text_width(out) + text_width(next) + 2 > width) {
      return out + str(pairs ? " … " : ", … ", values.count(), pairs ? "" : "]");
    }
    out += str(i == 0 ? "" : pairs ? " " : ", ", next);
  }
  return pairs ? out : out + "]";
}

Result<std::vector<data::ValueField>> fields_of(const DataSet& set) {
  const DataSpec data = readable_data(set);
  const bool own = traits_of(data.format).own_columns;  // the format defines the columns
  if (set.declared || own) {
    DataSpec declared = data;
    if (!set.declared) declared.fields.clear();
    return declared_fields(declared);
  }
  return found_fields(data, set.files.front());
}

Result<Rejected> show_head(const DataSet& set, uint64_t wanted, uint64_t skip,
                           const LookOptions& options, std::ostream& out) {
  DP_TRY(std::vector<data::ValueField> fields, fields_of(set));
  // Without declared fields, add a field that only later records have.
  const data::Unnamed unnamed = set.declared ? data::Unnamed::kIgnore : data::Unnamed::kAdd;
  DP_TRY(RecordWalk walk, RecordWalk::open(set, options.worker, options.epoch_index));
  std::unique_ptr<data::RecordDecoder> decoder;
  std::string decoded_path;
  Rejected bad;
  std::vector<std::vector<data::FieldValues>> kept;
  std::vector<std::vector<std::string>> texts;  // copies for `kept`, which outlives the windows
  std::vector<std::string> names;
  RawRecord record;
  std::vector<data::FieldValues> values;
  for (uint64_t met = 0, shown = 0; shown < wanted; ++met) {
    DP_TRY(const bool more, walk.next(record));
    if (!more) break;
    if (options.stopped()) return interrupted_error();
    if (met < skip) continue;
    ++shown;
    if (decoder == nullptr || decoded_path != walk.file().path) {
      decoded_path = walk.file().path;
      if (decoder != nullptr) fields = decoder->fields();
      DP_TRY(decoder, make_decoder(readable_data(set), decoded_path, fields, unnamed));
    }
    data::Fault fault = record.fault;
    if (fault.reason != nullptr || !decoder->decode(record, values, fault)) {
      ++bad.count;
      if (bad.first.size() < kBadShown)
        bad.first.push_back(data::bad_record_error(fault, walk.where(record)));
      continue;
    }
    if (options.json) {
      out << json_line(walk.file(), record, decoder->fields(), values);
      continue;
    }
    auto& copies = texts.emplace_back();
    for (const data::FieldValues& each : values)
      for (const std::string_view text : each.texts) copies.emplace_back(text);
    kept.push_back(values);
    names.push_back(str("record ", met, ", ", walk.file().path, " (",
                        is_arrays(set.data().format) ? "row " : "byte ", record.offset, ")"));
  }
  for (size_t r = 0; r < kept.size(); ++r) {
    size_t at = 0;
    for (data::FieldValues& each : kept[r])
      for (std::string_view& text : each.texts) text = texts[r][at++];
  }
  if (!options.json && decoder != nullptr && !kept.empty())
    out << head_text(decoder->fields(), kept, names, options.columns);
  return bad;
}

}  // namespace downpour::tools
