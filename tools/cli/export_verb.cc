#include <cstdio>
#include <filesystem>

#include "shared/base/error_text.h"
#include "shared/base/human.h"
#include "shared/checkpoint/manifest.h"
#include "shared/env/storage.h"
#include "tools/cli/verbs.h"
#include "tools/export/export_model.h"

namespace downpour::tools {
namespace {

struct ExportFlags {
  std::string run, out, format, variable;
};

Result<void> run_export(const ExportFlags& flags) {
  std::error_code ignored;
  PosixStorage storage;
  const auto absolute = [&](const std::string& path) {
    return std::filesystem::absolute(path, ignored).lexically_normal().string();
  };
  const ExportRequest request{.run_dir = absolute(flags.run),
                              .path = absolute(flags.out),
                              .format = flags.format,
                              .variable = flags.variable};
  DP_TRY(const Exported exported, checkpoint::read_beside_training(storage, request.run_dir, [&] {
           return export_model(storage, request);
         }));
  for (const std::string& note : exported.notes)
    std::fprintf(stderr, "warning: %s\n", printable(note).c_str());
  std::vector<std::vector<std::string>> rows = {
      {exported.any_rows ? "input or output" : "array", "type", "shape", "bytes"}};
  for (const ArraySpec& array : exported.arrays) {
    std::string shape;
    for (const uint64_t d : array.shape)
      shape += str(shape.empty() ? "" : " x ",
                   shape.empty() && exported.any_rows ? "records" : grouped(d));
    rows.push_back({printable(array.name),
                    array.type == ElementType::kFloat32 ? "float32" : "uint64", shape,
                    exported.any_rows ? "-" : human_bytes(array.bytes())});
  }
  std::printf("%smodel   checkpoint %s of %s\nfile    %s\n",
              table_text(rows, /*left_columns=*/3).c_str(), exported.checkpoint.c_str(),
              printable(flags.run).c_str(), printable(flags.out).c_str());
  return {};
}

}  // namespace

void declare_export(CLI::App* verb, int& status) {
  auto* const flags = set_run(verb, status, run_export);
  verb->add_option("run", flags->run, "Run folder")->required();
  verb->add_option("--out", flags->out,
                   "File to write: NAME.npz (NumPy), NAME.safetensors, NAME.onnx (the operations "
                   "after the embeddings), or NAME.tsv (the rows of one variable of embeddings)")
      ->required();
  verb->add_option("--format", flags->format,
                   "npz, safetensors, onnx or tsv; default: by the ending of the file")
      ->default_str("");
  verb->add_option("--variable", flags->variable,
                   "For tsv: name of the embeddings, if the model has several")
      ->default_str("");
  verb->footer(
      "Examples:\n  downpour export runs/clicks --out clicks.npz\n"
      "  downpour export runs/clicks --out clicks.onnx\n"
      "  downpour export runs/clicks --variable emb/job --out jobs.tsv");
}

}  // namespace downpour::tools
