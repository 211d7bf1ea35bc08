#include <algorithm>
#include <atomic>
#include <thread>

#include "chief/runtime/average_images.h"
#include "chief/runtime/same_meaning.h"
#include "shared/base/check.h"
#include "shared/base/hash.h"
#include "shared/checkpoint/manifest.h"
#include "shared/checkpoint/partition_reader.h"
#include "shared/checkpoint/paths.h"
#include "shared/data/formats/memory/memory_table.h"
#include "shared/data/reading/dataset.h"
#include "shared/data/values/field_set.h"
#include "shared/job/formats.h"
#include "shared/job/job_file.h"
#include "shared/optim/initializer.h"
#include "shared/optim/optimizer.h"
#include "tools/embedded/model.h"
#include "tools/embedded/scorer_buffers.h"

namespace downpour::tools {
namespace {

constexpr uint64_t kRowsPerPiece = 8192;  // of a table that several threads predict

}  // namespace

/// The weights of a table.
struct Scorer::Table {
  /// Maps keys to row numbers: open addressing, at most half full.
  class KeyIndex {
   public:
    void build(const std::vector<uint64_t>& keys) {
      size_t places = 16;
      while (places < keys.size() * 2) places *= 2;
      keys_.assign(places, 0);
      rows_.assign(places, kNone);
      for (uint32_t row = 0; row < keys.size(); ++row) {
        size_t at = place(keys[row]);
        while (rows_[at] != kNone) at = (at + 1) & (places - 1);
        keys_[at] = keys[row];
        rows_[at] = row;
      }
    }
    /// Returns the row of a key, or kNone.
    uint32_t find(uint64_t key) const {
      for (size_t at = place(key); rows_[at] != kNone; at = (at + 1) & (rows_.size() - 1))
        if (keys_[at] == key) return rows_[at];
      return kNone;
    }
    static constexpr uint32_t kNone = UINT32_MAX;

   private:
    size_t place(uint64_t key) const { return mix64(key) & (rows_.size() - 1); }

    std::vector<uint64_t> keys_;
    std::vector<uint32_t> rows_;
  };

  TableSpec spec;
  std::vector<uint64_t> seeds;  // by variable
  std::vector<uint64_t> keys;   // embeddings: of each row
  KeyIndex index;
  std::vector<std::vector<float>> weights;  // by variable: [rows, dim], or all elements

  void add(const checkpoint::TableImage& image) {
    keys.insert(keys.end(), image.keys.begin(), image.keys.end());
    for (size_t m = 0; m < spec.table_variables.size(); ++m) {
      const VariableSpec& variable = spec.table_variables[m];
      const float* from = image.table_variables[m].data();
      for (const uint64_t key : image.keys) {
        const uint32_t floats = spec.row_floats(m, key);
        const float* const row = from + optim::model_weights_at(variable.optimizer, floats);
        if (spec.kind == TableKind::kDense) {
          std::copy_n(row, floats, &weights[m][key * kDenseBlockFloats]);
        } else {
          weights[m].insert(weights[m].end(), row, row + floats);
        }
        from += optim::stored_floats(variable.optimizer, floats);
      }
    }
  }

  /// Writes the rows of `wanted` of variable `m`. A key that was never trained has its initial
  /// value.
  void gather(size_t m, const std::vector<uint64_t>& wanted, std::vector<float>& out) const {
    const VariableSpec& variable = spec.table_variables[m];
    out.resize(wanted.size() * variable.dim);
    float* to = out.data();
    for (const uint64_t key : wanted) {
      const uint32_t row = index.find(key);
      if (row == KeyIndex::kNone) {
        optim::fill_initial(variable.init, seeds[m], key, variable.dim, to);
      } else {
        std::copy_n(&weights[m][size_t(row) * variable.dim], variable.dim, to);
      }
      to += variable.dim;
    }
  }
};

namespace {

/// Repeats the last record up to a multiple of a chunk. Products of matrices with another number of
/// rows may be summed in another order, and the prediction of a record must not depend on others.
void fill_chunk(Batch& batch, uint32_t chunk_rows) {
  const uint32_t records = batch.records;
  const uint32_t filled = (records + chunk_rows - 1) / chunk_rows * chunk_rows;
  for (FloatColumn& column : batch.floats) {
    column.values.resize(size_t(filled) * column.width);
    const auto last = column.values.begin() + ptrdiff_t(records - 1) * column.width;
    for (uint32_t r = records; r < filled; ++r)
      std::copy_n(last, column.width, column.values.begin() + ptrdiff_t(r) * column.width);
  }
  for (BagColumn& bag : batch.bags) {
    if (bag.offsets.empty()) {
      bag.keys.resize(records);
      bag.keys.resize(filled, bag.keys.back());
      if (!bag.values.empty()) {
        bag.values.resize(records);
        bag.values.resize(filled, bag.values.back());
      }
    } else {
      bag.offsets.resize(records + 1);
      bag.offsets.resize(filled + 1, bag.offsets.back());
    }
  }
  batch.records = filled;
}

}  // namespace

struct ScoringPlan {
  std::shared_ptr<const data::ReadPlan> reading;
  uint64_t row_bytes = 1;
  bool raw = false;
};

Scorer::Scorer() = default;
Scorer::~Scorer() = default;

uint32_t Scorer::row_floats() const {
  uint32_t floats = 0;
  for (const uint32_t width : widths_) floats += width;
  return floats;
}

Result<std::unique_ptr<Scorer>> Scorer::open(Storage& storage, const std::string& run_dir) {
  std::unique_ptr<Scorer> scorer;
  DP_TRY_VOID(checkpoint::read_beside_training(storage, run_dir, [&] {
    scorer.reset(new Scorer);
    return scorer->load(storage, run_dir);
  }));
  return scorer;
}

Result<void> Scorer::load(Storage& storage, const std::string& run_dir) {
  DP_TRY(const checkpoint::Manifest manifest, checkpoint::load_model(storage, run_dir, nullptr));
  checkpoint_ = manifest.id;
  run_ = manifest.run;
  DP_TRY(job_, job_from_toml(manifest.job, run_dir));
  if (job_.model.is_custom()) return model::custom_refused();
  job_.eval.raw_predictions = false;  // a setting of `downpour predict`
  DP_TRY(graph_, model::Graph::build(job_));
  Job raw_job = job_;
  raw_job.eval.raw_predictions = true;
  DP_TRY(raw_graph_, model::Graph::build(raw_job));
  widths_ = graph_->output_widths();
  DP_TRY_VOID(
      chief::check_tables(manifest.tables, graph_->tables()).context("the run in ", run_dir));
  for (const TableSpec& spec : manifest.tables) {
    Table& table = tables_.emplace_back();
    table.spec = spec;
    table.weights.resize(spec.table_variables.size());
    for (size_t m = 0; m < spec.table_variables.size(); ++m) {
      const VariableSpec& variable = spec.table_variables[m];
      table.seeds.push_back(optim::variable_seed(job_.seed, variable.name));
      if (spec.kind != TableKind::kDense) continue;
      table.weights[m].resize(variable.elements());
      for (uint64_t block = 0; block < spec.block_count(); ++block)
        optim::fill_initial(variable.init, table.seeds[m], block, spec.row_floats(m, block),
                            &table.weights[m][block * kDenseBlockFloats]);
    }
  }
  const std::string folder = checkpoint::checkpoint_folder(run_dir, manifest.id);
  for (const std::vector<wire::ImageRef>& chain : checkpoint::chains_of(manifest)) {
    DP_TRY(const checkpoint::PartitionImage image,
           checkpoint::read_partition(storage, folder, chain, manifest.tables));
    for (const checkpoint::TableImage& rows : image.tables) {
      Table& table = tables_[raw(rows.table)];
      DP_TRY_VOID(chief::check_slots(table.spec, rows));
      table.add(rows);
    }
  }
  for (Table& table : tables_) table.index.build(table.keys);
  return {};
}

void Scorer::gather(const Batch& batch, Buffers& buffers) const {
  std::vector<model::VariableView>& views = buffers.views;
  views.clear();
  size_t v = 0;
  for (size_t t = 0; t < tables_.size(); ++t) {
    const Table& table = tables_[t];
    const auto keys = std::ranges::find(batch.tables, TableId(t), &TableKeys::table);
    for (size_t m = 0; m < table.spec.table_variables.size(); ++m, ++v) {
      if (buffers.gathered.size() <= v) buffers.gathered.emplace_back();
      const bool dense = table.spec.kind == TableKind::kDense;
      if (!dense && keys != batch.tables.end()) table.gather(m, keys->keys, buffers.gathered[v]);
      views.push_back({dense ? table.weights[m].data() : buffers.gathered[v].data()});
    }
  }
}

void Scorer::predict_batch(Batch& batch, uint32_t rows, Buffers& buffers, bool raw,
                           float* to) const {
  gather(batch, buffers);
  const uint32_t records = batch.records;
  fill_chunk(batch, rows);
  const model::Graph& graph = raw ? *raw_graph_ : *graph_;
  graph.forward(batch, buffers.views, *buffers.workspace, 1, buffers.predictions, nullptr);
  for (uint32_t r = 0; r < records; ++r)
    for (size_t o = 0; o < widths_.size(); ++o)
      to = std::copy_n(&buffers.predictions[o][size_t(r) * widths_[o]], widths_[o], to);
}

Result<void> Scorer::predict_rows(const ScoringPlan& plan, uint64_t begin, uint64_t end,
                                  std::span<float> out) const {
  const plan::ShardRange range{.begin = begin * plan.row_bytes, .end = end * plan.row_bytes};
  DP_TRY(const auto reader, data::open_shard(plan.reading, data::Split::kAll, ShardId{}, range, 0));
  Buffers buffers(*this);
  const uint32_t floats = row_floats();
  float* to = out.data();
  for (Batch batch;;) {
    DP_TRY(const bool more, reader->next(batch));
    if (!more) break;
    const uint32_t records = batch.records;
    DP_CHECK(to + size_t(records) * floats <= out.data() + out.size(), records);
    predict_batch(batch, graph_->chunk_rows(), buffers, plan.raw, to);
    to += size_t(records) * floats;
  }
  DP_CHECK(to == out.data() + out.size(), out.size());
  return {};
}

Result<std::vector<std::string>> Scorer::known_among(std::span<const std::string> texts) const {
  const auto trained = data::make_read_plan(job_, graph_->inputs(), widths_, SourceSpec{}, {}, 0);
  const auto plan = data::for_prediction(*trained, job_.model.outputs);
  DP_TRY(const data::FieldSet set, data::FieldSet::make(*plan));
  const auto is_known = [&](const std::string& text) {
    return std::ranges::any_of(set.keys, [&](const data::FieldSet::Keys& keys) {
      if (!keys.field.hashes_text() || keys.spec.is_bag()) return false;
      uint64_t key = keys.field.hash(text);
      for (const auto& later : set.deferred.keys)
        if (later.entry == keys.entry) key = later.hash.key_of(key);
      return std::ranges::any_of(tables_, [&](const Table& table) {
        return table.spec.kind != TableKind::kDense &&
               table.index.find(key) != Table::KeyIndex::kNone;
      });
    });
  };
  std::vector<std::string> known;
  std::ranges::copy_if(texts, std::back_inserter(known), is_known);
  return known;
}

Result<void> Scorer::predict(const std::string& table, uint32_t threads, std::span<float> out,
                             bool raw) const {
  DP_TRY(const auto memory, data::find_table(table));
  const uint64_t rows = memory->rows;
  DP_CHECK(out.size() == rows * row_floats(), out.size(), rows);
  Job job = job_;
  // An empty cell of a table is a missing value; an empty text of a column in memory is a text.
  if (is_table(job.data.format)) job.data.missing.emplace_back();
  job.data.format = DataFormat::kMemory;
  job.data.bad_records = BadRecords::kFail;  // each row has a prediction
  const SourceSpec source{.paths = {table}};
  DP_TRY(auto files, data::list_files(job.data, source, "/"));
  ScoringPlan plan{.row_bytes = memory->row_bytes(), .raw = raw};
  plan.reading = data::for_prediction(
      *data::make_read_plan(job, graph_->inputs(), widths_, source, std::move(files), 0),
      job.model.outputs);
  const uint64_t pieces = std::max<uint64_t>((rows + kRowsPerPiece - 1) / kRowsPerPiece, 1);
  std::vector<Result<void>> results(pieces);
  std::atomic<uint64_t> next = 0;
  const auto run = [&] {
    for (uint64_t i = next++; i < pieces; i = next++) {
      const uint64_t begin = i * kRowsPerPiece, end = std::min(rows, begin + kRowsPerPiece);
      results[i] = predict_rows(plan, begin, end,
                                out.subspan(begin * row_floats(), (end - begin) * row_floats()));
    }
  };
  {
    std::vector<std::jthread> others;
    while (others.size() + 1 < std::min<uint64_t>(threads, pieces)) others.emplace_back(run);
    run();
  }
  for (Result<void>& result : results) {
    if (!result) return std::move(result).error();
  }
  return {};
}

}  // namespace downpour::tools
