#include "tools/export/export_model.h"

#include <functional>

#include "shared/base/bytes.h"
#include "shared/optim/optimizer.h"
#include "tools/export/onnx_model.h"
#include "tools/export/rows_tsv.h"
#include "tools/export/saved_model.h"

namespace downpour::tools {
namespace {

using checkpoint::TableImage;

template <typename T>
std::span<const uint8_t> bytes_of(const std::vector<T>& values) {
  return {reinterpret_cast<const uint8_t*>(values.data()), values.size() * sizeof(T)};
}

/// Appends the weights of variable `m` of a table of embeddings.
Result<void> append_rows(const SavedModel& model, size_t table, size_t m, Archive& archive) {
  const VariableSpec& variable = model.manifest().tables[table].table_variables[m];
  const uint32_t stored = optim::stored_floats(variable.optimizer, variable.dim);
  return model.each_partition(table, [&](const TableImage& rows) {
    std::vector<float> weights;
    weights.reserve(rows.keys.size() * variable.dim);
    const float* from =
        rows.table_variables[m].data() + optim::model_weights_at(variable.optimizer, variable.dim);
    for (size_t r = 0; r < rows.keys.size(); ++r, from += stored)
      weights.insert(weights.end(), from, from + variable.dim);
    return archive.append(bytes_of(weights));
  });
}

Result<void> append_keys(const SavedModel& model, size_t table, Archive& archive) {
  return model.each_partition(table, [&](const TableImage& rows) {
    return archive.append(
        {reinterpret_cast<const uint8_t*>(rows.keys.data()), rows.keys.size() * sizeof(uint64_t)});
  });
}

/// One array, and how its bytes are appended.
struct Source {
  ArraySpec array;
  std::function<Result<void>(Archive&)> append;
};

Result<std::vector<Source>> sources_of(const SavedModel& model) {
  std::vector<Source> sources;
  const std::vector<TableSpec>& tables = model.manifest().tables;
  for (size_t t = 0; t < tables.size(); ++t) {
    const TableSpec& spec = tables[t];
    if (spec.kind == TableKind::kDense) {
      const VariableSpec& variable = spec.table_variables[0];
      sources.push_back(
          {{.name = variable.name, .shape = {variable.shape.begin(), variable.shape.end()}},
           [&model, t](Archive& archive) -> Result<void> {
             DP_TRY(const std::vector<float> weights, model.dense(t));
             return archive.append(bytes_of(weights));
           }});
      continue;
    }
    uint64_t rows = 0;
    DP_TRY_VOID(model.each_partition(t, [&](const TableImage& image) -> Result<void> {
      rows += image.keys.size();
      return {};
    }));
    for (size_t m = 0; m < spec.table_variables.size(); ++m) {
      const VariableSpec& variable = spec.table_variables[m];
      sources.push_back(
          {{.name = variable.name + "/keys", .type = ElementType::kUint64, .shape = {rows}},
           [&model, t](Archive& archive) { return append_keys(model, t, archive); }});
      sources.push_back(
          {{.name = variable.name, .shape = {rows, variable.dim}},
           [&model, t, m](Archive& archive) { return append_rows(model, t, m, archive); }});
    }
  }
  for (const OutputSpec& output : model.job().model.outputs) {
    for (const auto& [name, number] :
         {std::pair("offset", output.offset.value), std::pair("scale", output.scale.value)}) {
      sources.push_back({{.name = str(output.name, "/", name), .shape = {1}},
                         [number = std::vector{number}](Archive& archive) {
                           return archive.append(bytes_of(number));
                         }});
    }
  }
  return sources;
}

Result<Exported> export_arrays(Storage& storage, const ExportRequest& request,
                               ArchiveFormat format) {
  Exported exported;
  DP_TRY(const SavedModel model, SavedModel::open(storage, request.run_dir, exported.notes));
  DP_TRY(const std::vector<Source> sources, sources_of(model));
  exported.checkpoint = str(model.manifest().id);
  for (const Source& source : sources) exported.arrays.push_back(source.array);
  DP_TRY(const auto archive, create_archive(storage, request.path, format, exported.arrays,
                                            "job.toml", model.manifest().job));
  for (const Source& source : sources) DP_TRY_VOID(source.append(*archive));
  DP_TRY_VOID(archive->finish());
  return exported;
}

}  // namespace

Result<Exported> export_model(Storage& storage, const ExportRequest& request) {
  const std::string& path = request.path;
  const auto is = [&](const char* format) {
    return request.format.empty() ? path.ends_with(str(".", format)) : request.format == format;
  };
  if (is("tsv")) return export_rows(storage, request.run_dir, path, request.variable);
  if (!request.variable.empty()) {
    return Error{ErrorCode::kUsage, "only a .tsv file has the rows of one variable", path,
                 "leave out --variable, or write a .tsv file"};
  }
  if (is("npz")) return export_arrays(storage, request, ArchiveFormat::kNpz);
  if (is("safetensors")) return export_arrays(storage, request, ArchiveFormat::kSafetensors);
  if (is("onnx")) return export_onnx(storage, request.run_dir, path);
  return Error{
      ErrorCode::kUsage,
      request.format.empty() ? "the format of the file is not known"
                             : str("the format `", request.format, "` is not known"),
      path, "end the name in .npz, .safetensors, .onnx or .tsv, or name one of them: --format npz"};
}

}  // namespace downpour::tools
