#include "tools/export/onnx_model.h"

#include "shared/base/human.h"
#include "shared/base/str.h"
#include "shared/base/version.h"
#include "shared/model/compile.h"
#include "shared/model/graph.h"
#include "tools/export/onnx_file.h"
#include "tools/export/onnx_graph.h"
#include "tools/export/saved_model.h"

namespace downpour::tools {
namespace {

/// Limit of a protocol buffer.
constexpr uint64_t kBytesMax = (uint64_t{1} << 31) - 1;

/// Checks that the checkpoint has the variables that the saved job declares.
Result<void> check_tables(const checkpoint::Manifest& manifest, const model::Program& program,
                          const std::string& run_dir) {
  bool same = manifest.tables.size() == program.tables.size();
  for (size_t t = 0; same && t < program.tables.size(); ++t) {
    const TableSpec &there = manifest.tables[t], &here = program.tables[t];
    same = there.kind == here.kind && there.table_variables.size() == here.table_variables.size();
    for (size_t m = 0; same && m < here.table_variables.size(); ++m) {
      const VariableSpec &a = there.table_variables[m], &b = here.table_variables[m];
      same = a.name == b.name && a.shape == b.shape && a.dim == b.dim;
    }
  }
  if (same) return {};
  return Error{ErrorCode::kBadData, "the variables of the checkpoint are not those of its job",
               run_dir, "restore the run folder, or train again"};
}

}  // namespace

Result<Exported> export_onnx(Storage& storage, const std::string& run_dir,
                             const std::string& path) {
  Exported exported;
  DP_TRY(const SavedModel model, SavedModel::open(storage, run_dir, exported.notes));
  if (model.job().model.is_custom()) return model::custom_refused();
  DP_TRY(const model::Program program, model::compile(model.job()));
  DP_TRY_VOID(check_tables(model.manifest(), program, run_dir));
  exported.checkpoint = str(model.manifest().id);
  OnnxFile file;
  OnnxGraph graph(program, file, [&](size_t table) { return model.dense(table); });
  DP_TRY_VOID(graph.build(model.job()));
  file.add_metadata("downpour.checkpoint", exported.checkpoint);
  const std::string bytes = file.encode("downpour", "downpour", kBuildVersion);
  if (bytes.size() > kBytesMax) {
    return Error{ErrorCode::kUnsupported,
                 str("the dense variables have ", human_bytes(file.weight_bytes()),
                     ", but an ONNX file is limited to ", human_bytes(kBytesMax)),
                 path, "export to .safetensors or .npz"};
  }
  exported.arrays = graph.signature();
  exported.any_rows = true;
  DP_TRY(const auto out, storage.create(path));
  DP_TRY_VOID(out->append({reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()}));
  DP_TRY_VOID(out->commit());
  return exported;
}

}  // namespace downpour::tools
