#include "tools/export/rows_tsv.h"

#include <charconv>

#include "shared/base/str.h"
#include "tools/export/words.h"

namespace downpour::tools {
namespace {

constexpr size_t kBufferBytes = 1 << 20;

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '\t')
      out += "\\t";
    else if (c == '\n')
      out += "\\n";
    else if (c == '\\')
      out += "\\\\";
    else
      out += c;
  }
  return out;
}

void append_number(std::string& out, float value) {
  char text[32];
  const auto end = std::to_chars(text, text + sizeof(text), value).ptr;
  out.append(text, end);
}

struct Place {
  size_t table = 0, m = 0;
};

/// Returns the place of the variable of embeddings with this name, or of the only one.
Result<Place> find_rows(const checkpoint::Manifest& manifest, const std::string& name) {
  std::string names;
  std::vector<Place> found;
  for (size_t t = 0; t < manifest.tables.size(); ++t) {
    const TableSpec& table = manifest.tables[t];
    if (table.kind != TableKind::kEmbedding) continue;
    for (size_t m = 0; m < table.table_variables.size(); ++m) {
      const std::string& each = table.table_variables[m].name;
      names += str(names.empty() ? "" : ", ", each);
      if (name.empty() || each == name) found.push_back({t, m});
    }
  }
  if (found.size() == 1) return found[0];
  if (names.empty()) {
    return Error{ErrorCode::kUsage, "the model has no embeddings, so there are no rows to write",
                 "", "export to .npz, .safetensors or .onnx"};
  }
  return Error{ErrorCode::kUsage,
               name.empty() ? "the model has several variables of embeddings, and a file has one"
                            : str("the model has no embeddings with the name `", name, "`"),
               "", str("--variable is one of: ", names)};
}

}  // namespace

Result<Exported> export_rows(Storage& storage, const std::string& run_dir, const std::string& path,
                             const std::string& variable) {
  Exported exported;
  DP_TRY(const SavedModel model, SavedModel::open(storage, run_dir, exported.notes));
  exported.checkpoint = str(model.manifest().id);
  DP_TRY(const Place place, find_rows(model.manifest(), variable));
  const VariableSpec& spec = model.manifest().tables[place.table].table_variables[place.m];
  DP_TRY(const Words words, Words::open(model.job(), place.table));
  DP_TRY(const auto file, storage.create(path));
  std::string text = "key";
  for (const std::string& field : words.fields()) text += "\t" + escaped(field);
  for (uint32_t i = 0; i < spec.dim; ++i) text += str("\t", i);
  text += "\n";
  uint64_t rows = 0;
  Result<void> written;
  const auto flush = [&] {
    if (written)
      written = file->append({reinterpret_cast<const uint8_t*>(text.data()), text.size()});
    text.clear();
  };
  DP_TRY_VOID(model.each_row(place.table, place.m, [&](uint64_t key, const float* row) {
    text += std::to_string(key);
    for (size_t f = 0; f < words.fields().size(); ++f) text += "\t" + escaped(words.word(f, key));
    for (uint32_t i = 0; i < spec.dim; ++i) {
      text += '\t';
      append_number(text, row[i]);
    }
    text += '\n';
    ++rows;
    if (text.size() > kBufferBytes) flush();
  }));
  flush();
  DP_TRY_VOID(std::move(written));
  DP_TRY_VOID(file->commit());
  exported.arrays.push_back({.name = spec.name, .shape = {rows, spec.dim}});
  return exported;
}

}  // namespace downpour::tools
