#include "shared/checkpoint/summary.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <span>
#include <tuple>
#include <utility>

#include "shared/checkpoint/image_layout.h"
#include "shared/checkpoint/partition_reader.h"
#include "shared/checkpoint/paths.h"

namespace downpour::checkpoint {
namespace {

/// Statistics of one variable, in the order of partitions and keys.
struct Totals {
  uint64_t rows = 0, elements = 0, stored = 0, zeros = 0, non_finite = 0;
  double squares = 0;
  float min = std::numeric_limits<float>::infinity();
  float max = -std::numeric_limits<float>::infinity();

  void add_weights(std::span<const float> weights) {
    elements += weights.size();
    for (const float w : weights) {
      if (!std::isfinite(w)) {
        ++non_finite;
        continue;
      }
      if (w == 0) ++zeros;
      squares += double{w} * double{w};
      min = std::min(min, w);
      max = std::max(max, w);
    }
  }
  void add_table(const TableSpec& spec, const TableImage& image, size_t m) {
    const PageVector<float>& floats = image.table_variables[m];
    uint64_t weights = 0;
    for (const uint64_t key : image.keys) weights += spec.row_floats(m, key);
    // the reader has checked that this division has no remainder
    const uint64_t in_row = row_slots_of(spec, m);
    const uint64_t copies =
        weights == 0 ? 1 : (floats.size() - in_row * image.keys.size()) / weights;
    const bool averages = spec.table_variables[m].optimizer.averages();
    size_t position = 0;
    for (const uint64_t key : image.keys) {
      const uint64_t row = spec.row_floats(m, key);
      const uint64_t end = position + row * copies + in_row;
      // The averages, with which the model predicts, are the last floats of a row but one.
      add_weights(std::span(floats).subspan(averages ? end - 1 - row : position, row));
      position = end;
    }
    rows += image.keys.size();
    stored += floats.size();
  }
  VariableSummary summary(const TableSpec& table, size_t m) const {
    const bool any = elements > non_finite;
    return {.table = table.name,
            .kind = table.kind,
            .spec = table.table_variables[m],
            .rows = rows,
            .elements = elements,
            .weight_bytes = elements * sizeof(float),
            .slot_bytes = (stored - elements) * sizeof(float),
            .l2_norm = std::sqrt(squares),
            .min = any ? min : 0.0F,
            .max = any ? max : 0.0F,
            .zeros = zeros,
            .non_finite = non_finite};
  }
};

struct Source {
  Manifest manifest;
  std::string manifest_path;
  std::string folder;  // of the images
  std::vector<std::string> skipped;
  std::optional<Error> best_damage;
};

Result<Source> open_run(Storage& storage, const std::string& run_dir) {
  Source source;
  DP_TRY(source.manifest, load_newest(storage, run_dir, &source.skipped));
  source.manifest_path = manifest_path(run_dir, source.manifest.id);
  source.folder = checkpoint_folder(run_dir, source.manifest.id);
  const auto best = load_best(storage, run_dir, source.manifest, UINT64_MAX);
  if (!best) source.best_damage = best.error();
  return source;
}

Result<Source> open_manifest(Storage& storage, const std::string& path) {
  Source source;
  DP_TRY(source.manifest, load_manifest(storage, path));
  source.manifest_path = path;
  const size_t slash = path.find_last_of('/');
  const std::string beside = slash == std::string::npos ? std::string() : path.substr(0, slash + 1);
  source.folder = str(beside, source.manifest.id.term, '-', source.manifest.id.n);
  return source;
}

Result<Source> open(Storage& storage, const std::string& path) {
  DP_TRY(const bool there, storage.exists(path));
  if (!there) return Error{ErrorCode::kNoInput, "no such file or folder", path};
  if (const auto names = storage.list(path)) return open_run(storage, path);
  return open_manifest(storage, path);
}

/// Figures collected while images are read.
struct Gathering {
  std::vector<std::vector<Totals>> totals;  // by table, by variable
  std::vector<uint64_t> partition_rows;
  std::vector<uint64_t> versions, steps_before;
  // epoch -> ended shards at each partition that lists the epoch
  std::map<uint32_t, std::vector<uint32_t>> ended;

  void add(const std::vector<TableSpec>& tables, const PartitionImage& image) {
    uint64_t rows = 0;
    for (const TableImage& table : image.tables) {
      const TableSpec& spec = tables[raw(table.table)];
      for (size_t m = 0; m < spec.table_variables.size(); ++m)
        totals[raw(table.table)][m].add_table(spec, table, m);
      if (spec.kind == TableKind::kEmbedding) rows += table.keys.size();
    }
    partition_rows.push_back(rows);
    versions.push_back(image.version);
    steps_before.push_back(image.steps_before);
    for (const EpochImage& epoch : image.epochs) ended[epoch.epoch].push_back(epoch.shards_ended);
  }
};

void fill(const Gathering& gathering, Summary* summary) {
  const std::vector<TableSpec>& tables = summary->manifest.tables;
  for (size_t t = 0; t < tables.size(); ++t) {
    for (size_t m = 0; m < tables[t].table_variables.size(); ++m) {
      summary->variables.push_back(gathering.totals[t][m].summary(tables[t], m));
    }
  }
  for (const auto& [epoch, ended] : gathering.ended) {
    const auto [least, most] = std::minmax_element(ended.begin(), ended.end());
    // A partition that does not list the epoch has not begun it.
    const bool all = ended.size() == summary->manifest.partitions;
    summary->open_epochs.push_back({epoch, all ? *least : 0, *most});
  }
  std::vector<uint64_t> rows = gathering.partition_rows;
  std::sort(rows.begin(), rows.end());
  for (const uint64_t n : rows) summary->rows += n;
  summary->rows_min = rows.front();
  summary->rows_median = rows[rows.size() / 2];
  summary->rows_max = rows.back();
  const auto extremes = [](const std::vector<uint64_t>& values) {
    return std::pair{std::ranges::min(values), std::ranges::max(values)};
  };
  std::tie(summary->version_min, summary->version_max) = extremes(gathering.versions);
  std::tie(summary->steps_before_min, summary->steps_before_max) = extremes(gathering.steps_before);
}

}  // namespace

Result<Summary> summarize(Storage& storage, const std::string& path) {
  DP_TRY(Source source, open(storage, path));
  Summary summary;
  summary.manifest = std::move(source.manifest);
  summary.manifest_path = std::move(source.manifest_path);
  summary.skipped = std::move(source.skipped);
  summary.best_damage = std::move(source.best_damage);
  const Manifest& manifest = summary.manifest;

  Gathering gathering;
  for (const TableSpec& table : manifest.tables)
    gathering.totals.emplace_back(table.table_variables.size());
  std::set<std::string> files;
  std::set<ViewId> bases;
  for (const std::vector<wire::ImageRef>& chain : chains_of(manifest)) {
    DP_TRY(const PartitionImage image,
           read_partition(storage, source.folder, chain, manifest.tables));
    gathering.add(manifest.tables, image);
    for (const wire::ImageRef& ref : chain) {
      const bool own = ref.checkpoint == manifest.id;
      (own ? summary.bytes : summary.base_bytes) += ref.bytes;
      if (own) files.insert(ref.file);
      if (!own) bases.insert(ref.checkpoint);
    }
    summary.images_max = std::max(summary.images_max, uint32_t(chain.size()));
  }
  summary.bases.assign(bases.begin(), bases.end());
  summary.files = uint32_t(files.size());
  fill(gathering, &summary);
  return summary;
}

}  // namespace downpour::checkpoint
