// sniff: detects a file's format and the settings that a job for it needs.
#include "shared/data/formats/sniff.h"

#include "shared/base/object_scheme.h"
#include "shared/data/formats/format.h"
#include "shared/data/formats/json/json_scan.h"
#include "shared/data/formats/sniff_columns.h"
#include "shared/data/records/delimited.h"

namespace downpour::data {
namespace {

/// Checks that the names in the facts are UTF-8, because a job that names them must be.
Result<FileFacts> checked(FileFacts facts, const std::string& path) {
  std::vector<std::string> texts = facts.columns;
  for (const FieldSpec& field : facts.fields) {
    texts.push_back(field.source_name());
    texts.insert(texts.end(), field.positive.begin(), field.positive.end());
    texts.insert(texts.end(), field.classes.begin(), field.classes.end());
  }
  for (const std::string& text : texts) {
    if (json::is_utf8(text)) continue;
    return Error{ErrorCode::kBadData,
                 str("\"", shown(text),
                     "\" is a column name that is not UTF-8, but a job file must be UTF-8: ", path),
                 path,
                 str("convert the file: iconv -f latin1 -t utf-8 ", path,
                     "; or list the columns in data.columns of a job")};
  }
  return facts;
}

/// Returns the name of a format that only the Python package reads; null for others.
const char* python_format(std::string_view text) {
  if (text.starts_with("PAR1")) return "a Parquet file";
  if (text.starts_with("ARROW1") || text.starts_with("FEA1")) return "a Feather (Arrow) file";
  const bool pickle = text.size() > 2 && text[0] == '\x80' && text[1] >= 2 && text[1] <= 5;
  return pickle ? "a pickle of Python" : nullptr;
}

Error unknown_format(FileSample& file) {
  if (file.error()) return *file.error();
  if (const char* const format = python_format(file.text())) {
    return Error{ErrorCode::kBadData, str("is ", format, ": ", file.path()), file.path(),
                 str("convert it with the Python package: python -m downpour convert ", file.path(),
                     " --out FILE.csv")};
  }
  const std::string known =
      "supported formats are TFRecord, npy, npz, libsvm, libffm, JSON lines, CSV, TSV, criteo and "
      "mnist (idx), each also compressed (gzip, zstd)";
  if (file.text().starts_with("\xff\xfe") || file.text().starts_with("\xfe\xff")) {
    return Error{ErrorCode::kBadData, str("is text in UTF-16: ", file.path()), file.path(),
                 "convert it: iconv -f UTF-16 -t UTF-8 OLD > NEW"};
  }
  if (file.lines().empty()) {
    return Error{ErrorCode::kBadData,
                 str("is neither text nor a supported binary format: ", file.path()), file.path(),
                 known};
  }
  return Error{ErrorCode::kBadData,
               str("can't detect the format; the first line is \"", shown(file.lines()[0]), "\""),
               str(file.path(), ":", file.declared().skip_lines + 1),
               known + "; say data.format in a job"};
}

}  // namespace

Sniffed recognize(const std::string& path, const DataSpec& declared, const Roles& roles) {
  if (is_memory_path(path)) return sniff_memory(path, roles);
  FileSample file(path, declared, roles);
  for (const Format* format : kFormatTable) {
    if (format->sniff == nullptr) continue;
    std::optional<Sniffed> found = format->sniff(file);
    if (!found) continue;
    if (found->facts) found->facts = checked(std::move(*found->facts), path);
    return std::move(*found);
  }
  return {.facts = unknown_format(file)};
}

Result<FileFacts> sniff(const std::string& path, const DataSpec& declared, const Roles& roles) {
  return recognize(path, declared, roles).facts;
}

void warn_of_rounding(const char* what, const std::string& name, FileFacts& facts) {
  facts.warnings.push_back(str("the numbers of the ", what, " `", shown(name),
                               "` differ too little for 32-bit floats, so that most of them read "
                               "as the same number; subtract a constant from them"));
}

}  // namespace downpour::data
