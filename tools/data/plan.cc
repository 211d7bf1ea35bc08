// `downpour data plan`: shows the shards and the worker that would read each of them.
#include <algorithm>

#include <nlohmann/json.hpp>

#include "shared/base/human.h"
#include "shared/data/reading/dataset.h"
#include "tools/data/look.h"

namespace downpour::tools {
namespace {

using Json = nlohmann::ordered_json;

struct Share {
  uint64_t shards = 0, bytes = 0;
};

std::string rounded_percent(uint64_t part, uint64_t whole) {
  return str(whole == 0 ? 0 : (1000 * part / whole + 5) / 10, " %");
}

void print_text(const CutData& cut, const std::vector<Piece>& pieces, uint64_t limit,
                const std::vector<Share>& shares, uint32_t epoch_index, const DataSpec& data,
                std::ostream& out) {
  uint64_t bytes = 0;
  for (const plan::FileInfo& file : cut.files) bytes += file.bytes;
  const bool streamed = !cut.files.empty() && cut.files.front().is_streamed();
  const size_t shards = pieces.empty() ? 0 : pieces.back().shard.shard + size_t{1};
  const auto unit = [&](size_t count) {
    return str(shards == pieces.size() ? " shard" : " range", count == 1 ? "" : "s");
  };
  out << cut.files.size() << (cut.files.size() == 1 ? " file, " : " files, ") << human_bytes(bytes)
      << ", in " << grouped(pieces.size()) << unit(pieces.size()) << " of about "
      << human_bytes(streamed ? bytes / pieces.size() : cut.shard_bytes);
  if (shards != pieces.size()) out << ", joined into " << grouped(shards) << " shards";
  out << "; epoch " << epoch_index + 1 << "\n";
  std::vector<std::vector<std::string>> rows = {{"file", "shard", "worker", "from", "to", "bytes"}};
  const size_t shown =
      limit == 0 ? pieces.size() : size_t(std::min<uint64_t>(limit, pieces.size()));
  for (size_t i = 0; i < shown; ++i) {
    const plan::ShardRange& range = pieces[i].range;
    rows.push_back({cut.files[range.file].path, str(pieces[i].shard.shard),
                    str(worker_of(cut, pieces[i], uint32_t(shares.size()))), str(range.begin),
                    str(range.end), human_bytes(range.end - range.begin)});
  }
  out << table_text(rows, /*left_columns=*/1);
  if (shown < pieces.size())
    out << "... and " << grouped(pieces.size() - shown) << " more" << unit(pieces.size() - shown)
        << " (--limit 0 shows all)\n";
  rows = {{"worker", "shards", "bytes", "share"}};
  for (size_t w = 0; w < shares.size(); ++w)
    rows.push_back({str(w), grouped(shares[w].shards), human_bytes(shares[w].bytes),
                    rounded_percent(shares[w].bytes, bytes)});
  out << table_text(rows, /*left_columns=*/0);
  out << data::sharding_text(data, cut.files)
      << "; this assignment assumes that all workers are equally fast"
      << (streamed ? " and that an input process reads for them" : "") << "\n";
  if (!data.source.takes_all())
    out << "note: the job reads only a part of these records (skip, take or shard of "
           "data.source)\n";
  for (const plan::FileInfo& file : cut.files) {
    if (!file.is_cut() && file.bytes > cut.shard_bytes)
      out << "note: " << file.path << " can't be split, so one worker reads the whole file\n";
  }
  if (shards < shares.size())
    out << "note: there are fewer shards than workers, so some workers have nothing to read: split "
           "the files with downpour shard, or lower data.shard_records\n";
}

Json plan_json(const CutData& cut, const std::vector<Piece>& pieces, uint32_t workers,
               uint32_t epoch_index, const DataSpec& data) {
  Json files = Json::array(), shards = Json::array();
  for (const plan::FileInfo& file : cut.files)
    files.push_back({{"path", file.path}, {"bytes", file.bytes}, {"splittable", file.splittable}});
  for (size_t i = 0; i < pieces.size(); ++i) {
    const plan::ShardRange& range = pieces[i].range;
    shards.push_back({{"shard", pieces[i].shard.shard},
                      {"file", range.file},
                      {"begin", range.begin},
                      {"end", range.end},
                      {"worker", worker_of(cut, pieces[i], workers)}});
  }
  return {{"epoch", epoch_index},
          {"shard_bytes", cut.shard_bytes},
          {"sharding", data::sharding_text(data, cut.files)},
          {"files", std::move(files)},
          {"shards", std::move(shards)}};
}

}  // namespace

Result<void> show_plan(const DataSet& set, uint32_t workers, uint64_t limit,
                       const LookOptions& options, std::ostream& out) {
  if (workers == 0) workers = std::max(set.job.cluster.workers, 1U);
  DP_TRY(const CutData cut, cut_data(set, Numbers::kToLeaveOut));
  const std::vector<Piece> pieces = pieces_of(cut, set.job.seed, options.epoch_index);
  std::vector<Share> shares(workers);
  for (size_t i = 0; i < pieces.size(); ++i) {
    Share& share = shares[worker_of(cut, pieces[i], workers)];
    if (i == 0 || pieces[i].shard.shard != pieces[i - 1].shard.shard) ++share.shards;
    share.bytes += pieces[i].range.end - pieces[i].range.begin;
  }
  if (options.json) {
    out << plan_json(cut, pieces, workers, options.epoch_index, set.data())
               .dump(-1, ' ', false, Json::error_handler_t::replace)
        << "\n";
  } else {
    print_text(cut, pieces, limit, shares, options.epoch_index, set.data(), out);
  }
  return {};
}

}  // namespace downpour::tools
